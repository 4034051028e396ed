variable "app" {
  type = string
}

variable "namespace" {
  type = string
}

variable "labels" {
  type = map(string)
}

resource "kubernetes_service" "app" {
  metadata {
    name      = "sixty-${var.app}"
    namespace = var.namespace
  }

  spec {
    selector = var.labels

    port {
      port        = 80
      target_port = 8080
    }
  }
}

output "service" {
  value = kubernetes_service.app.metadata[0].name
}
