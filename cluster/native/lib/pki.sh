# shellcheck shell=bash
# The node's certificates and kubeconfig files. Sourced by ../node.
#
# Two authorities: the cluster's, and etcd's own, or every client of the API server could talk to etcd. Authorities
# live as long as the node; what they sign lives a year and is signed anew at a start in its last 30 days.

PKI=$NODE/pki
KUBE=$NODE/kube

make_pki() {
  mkdir -p "$PKI" "$KUBE"
  chmod 700 "$PKI" "$KUBE"
  _authority ca agent-sandbox
  _authority etcd-ca agent-sandbox-etcd
  [ -f "$PKI/sa.key" ] || _new_key sa.key genrsa 2048
  [ -f "$PKI/sa.pub" ] || openssl rsa -in "$PKI/sa.key" -pubout 2>/dev/null | write_file 644 "$PKI/sa.pub"

  _certificate ca apiserver /CN=kube-apiserver serverAuth \
    "IP:$NODE_IP,IP:127.0.0.1,IP:$API_SERVICE_IP,DNS:localhost,DNS:$NODE_NAME,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,DNS:kubernetes.default.svc.cluster.local"
  _certificate ca kubelet-client /CN=kube-apiserver-kubelet-client clientAuth
  _certificate ca admin /O=system:masters/CN=admin clientAuth
  _certificate ca controller-manager /CN=system:kube-controller-manager clientAuth
  _certificate ca scheduler /CN=system:kube-scheduler clientAuth
  _certificate ca kubelet "/O=system:nodes/CN=system:node:$NODE_NAME" serverAuth,clientAuth "IP:$NODE_IP,DNS:$NODE_NAME"
  _certificate ca kube-proxy /CN=system:kube-proxy clientAuth
  _certificate ca netpold /CN=netpold clientAuth
  _certificate etcd-ca etcd /CN=etcd serverAuth,clientAuth IP:127.0.0.1
  _certificate etcd-ca etcd-client /CN=kube-apiserver clientAuth

  local user
  for user in admin controller-manager scheduler kubelet kube-proxy netpold; do
    kubeconfig "$PKI/$user.crt" "$PKI/$user.key" | write_file 600 "$KUBE/$user.conf"
  done
}

# A kubeconfig for USER in GROUP..., with everything in it, from a certificate that exists nowhere else.
issue_kubeconfig() {
  local user=$1 subject='' part dir
  shift
  for part in "$user" "$@"; do
    case $part in
    '' | *[!A-Za-z0-9:._@-]*) die "'$part' is no user or group name we sign" "Use letters, digits and : . _ @ -" ;;
    esac
  done
  for part in "$@"; do subject="$subject/O=$part"; done
  dir=$(mktemp -d)
  # shellcheck disable=SC2064 # this very folder
  at_exit "rm -rf '$dir'"
  (
    umask 077
    openssl ecparam -name prime256v1 -genkey -noout -out "$dir/user.key"
    _sign ca "$dir/user" "$subject/CN=$user" clientAuth ''
  )
  kubeconfig "$dir/user.crt" "$dir/user.key"
}

kubeconfig() {
  cat <<EOF
apiVersion: v1
kind: Config
clusters:
- name: agent-sandbox
  cluster:
    server: https://$NODE_IP:6443
    certificate-authority-data: $(openssl base64 -A -in "$PKI/ca.crt")
users:
- name: user
  user:
    client-certificate-data: $(openssl base64 -A -in "$1")
    client-key-data: $(openssl base64 -A -in "$2")
contexts:
- name: agent-sandbox
  context: {cluster: agent-sandbox, user: user}
current-context: agent-sandbox
EOF
}

_new_key() {
  local file=$1
  shift
  (
    umask 077
    openssl "$@" 2>/dev/null >"$PKI/$file.new"
  )
  mv "$PKI/$file.new" "$PKI/$file"
}

_authority() {
  [ -f "$PKI/$1.crt" ] && return 0
  _new_key "$1.key" ecparam -name prime256v1 -genkey -noout
  openssl req -x509 -new -key "$PKI/$1.key" -days 3650 -out "$PKI/$1.crt" -config <(
    printf '[req]\nprompt=no\ndistinguished_name=dn\nx509_extensions=ext\n[dn]\nCN=%s\n' "$2"
    printf '[ext]\nbasicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign,cRLSign\nsubjectKeyIdentifier=hash\n'
  )
}

# AUTHORITY NAME SUBJECT USAGE [NAMES]
_certificate() {
  if [ -f "$PKI/$2.crt" ] && [ -f "$PKI/$2.key" ] && openssl x509 -checkend 2592000 -noout -in "$PKI/$2.crt" >/dev/null; then
    return 0
  fi
  _new_key "$2.key" ecparam -name prime256v1 -genkey -noout
  _sign "$1" "$PKI/$2" "$3" "$4" "${5:-}"
}

_sign() {
  openssl req -new -key "$2.key" -subj "$3" -config <(printf '[req]\ndistinguished_name=dn\n[dn]\n') |
    openssl x509 -req -CA "$PKI/$1.crt" -CAkey "$PKI/$1.key" -set_serial "0x$(openssl rand -hex 16)" -days 365 -out "$2.crt.new" \
      -extfile <(
        printf 'basicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature\nextendedKeyUsage=%s\n' "$4"
        [ -z "$5" ] || printf 'subjectAltName=%s\n' "$5"
      ) 2>/dev/null
  mv "$2.crt.new" "$2.crt"
}
