# A root as people have them: three modules called for each of three applications, 60 resources, a secret variable.
# Tests and scripts/bench plan and apply it; README.md says how.

terraform {
  required_providers {
    kubernetes = {
      source  = "hashicorp/kubernetes"
      version = "1.13.4"
    }
  }
}

provider "kubernetes" {}

variable "namespace" {
  type = string
}

variable "image" {
  description = "An image with the runner's pong, with its digest."
  type        = string
}

variable "password" {
  type      = string
  sensitive = true
}

variable "release" {
  description = "Stands in each ConfigMap and in no pod."
  type        = string
  default     = "1"
}

locals {
  apps = toset(["catalog", "orders", "payments"])
}

module "settings" {
  source    = "./modules/settings"
  for_each  = local.apps
  app       = each.key
  namespace = var.namespace
  password  = var.password
  release   = var.release
}

module "app" {
  source    = "./modules/app"
  for_each  = local.apps
  app       = each.key
  namespace = var.namespace
  image     = var.image
}

module "network" {
  source    = "./modules/network"
  for_each  = local.apps
  app       = each.key
  namespace = var.namespace
  labels    = module.app[each.key].labels
}

output "services" {
  value = { for app, network in module.network : app => network.service }
}
