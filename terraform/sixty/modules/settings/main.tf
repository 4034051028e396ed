variable "app" {
  type = string
}

variable "namespace" {
  type = string
}

variable "password" {
  type      = string
  sensitive = true
}

variable "release" {
  type = string
}

locals {
  # 18 a call.
  parts = toset([for n in range(18) : format("part-%02d", n)])
}

resource "kubernetes_config_map" "settings" {
  for_each = local.parts

  metadata {
    name      = "sixty-${var.app}-${each.key}"
    namespace = var.namespace
  }

  data = {
    "settings.yaml" = yamlencode({ part = each.key, release = var.release })
    password        = var.password
  }
}
