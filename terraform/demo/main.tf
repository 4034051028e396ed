# One Deployment, as an agent would keep it. README.md says what to edit.

terraform {
  required_providers {
    kubernetes = {
      source  = "hashicorp/kubernetes"
      version = "1.13.4"
    }
  }
}

# Nothing in it: the sandbox brings the way to the API server, and never shows the credential to Terraform.
provider "kubernetes" {}

variable "image" {
  description = "The application's image, with its digest. scripts/up writes it to terraform.tfvars."
  type        = string
}

locals {
  labels = {
    app = "shop"
  }
}

resource "kubernetes_deployment" "shop" {
  metadata {
    name      = "shop"
    namespace = "demo-app"
    labels    = local.labels
  }

  spec {
    replicas = 1

    selector {
      match_labels = local.labels
    }

    template {
      metadata {
        labels = local.labels
      }

      spec {
        automount_service_account_token  = false
        enable_service_links             = false
        termination_grace_period_seconds = 0
        # It asks no name of anyone, and a cluster's DNS may not be there.
        dns_policy = "Default"

        container {
          name              = "shop"
          image             = var.image
          image_pull_policy = "IfNotPresent"
          args              = ["pong", "--port", "8080"]

          readiness_probe {
            tcp_socket {
              port = 8080
            }
            period_seconds = 1
          }

          resources {
            requests {
              cpu    = "10m"
              memory = "16Mi"
            }
            limits {
              cpu    = "250m"
              memory = "64Mi"
            }
          }

          # What is missing here this provider writes as 0 and false, over what the pod says.
          security_context {
            run_as_non_root            = true
            run_as_user                = 65532
            run_as_group               = 65532
            allow_privilege_escalation = false
            read_only_root_filesystem  = true
            capabilities {
              drop = ["ALL"]
            }
          }
        }
      }
    }
  }
}
