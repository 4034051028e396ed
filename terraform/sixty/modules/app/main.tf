variable "app" {
  type = string
}

variable "namespace" {
  type = string
}

variable "image" {
  type = string
}

locals {
  labels = { app = "sixty-${var.app}" }
}

resource "kubernetes_deployment" "app" {
  metadata {
    name      = "sixty-${var.app}"
    namespace = var.namespace
    labels    = local.labels
  }

  spec {
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
        dns_policy                       = "Default"

        container {
          name              = "app"
          image             = var.image
          image_pull_policy = "IfNotPresent"
          args              = ["pong", "--port", "8080"]

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

output "labels" {
  value = local.labels
}
