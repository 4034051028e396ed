# This file is maintained automatically by "terraform init".
# Manual edits may be lost in future updates.

provider "registry.terraform.io/hashicorp/kubernetes" {
  version     = "1.13.4"
  constraints = "1.13.4"
  hashes = [
    "h1:bXNviuLXqB4Grc/YYFKtSG+6mzGgc49sPsKdrqfGW7M=",
  ]
}
