# shellcheck shell=bash
# Images without a registry. Sourced by ../node.

PAUSE_IMAGE=localhost/agent-sandbox/pause:1

# The image of a pod's own process, as an OCI archive made by hand: one static file. Same binary, same digests.
write_pause_archive() {
  local to=$1 dir arch layer config manifest
  dir=$(mktemp -d)
  # shellcheck disable=SC2064 # this very folder
  at_exit "rm -rf '$dir'"
  case $(uname -m) in x86_64) arch=amd64 ;; aarch64) arch=arm64 ;; *) arch=$(uname -m) ;; esac
  mkdir -p "$dir/root" "$dir/blobs/sha256"
  install -m 755 "$BIN/pause" "$dir/root/pause"
  _tar -C "$dir/root" pause >"$dir/layer"
  layer=$(_blob "$dir" layer)
  printf '{"architecture":"%s","os":"linux","config":{"Entrypoint":["/pause"],"User":"65535:65535"},"rootfs":{"type":"layers","diff_ids":["sha256:%s"]}}' \
    "$arch" "${layer%% *}" >"$dir/config"
  config=$(_blob "$dir" config)
  printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":%s,"layers":[%s]}' \
    "$(_descriptor image.config.v1+json "$config")" "$(_descriptor image.layer.v1.tar "$layer")" >"$dir/manifest"
  manifest=$(_blob "$dir" manifest)
  printf '{"schemaVersion":2,"manifests":[%s]}' \
    "$(_descriptor image.manifest.v1+json "$manifest" ",\"annotations\":{\"io.containerd.image.name\":\"$PAUSE_IMAGE\"}")" >"$dir/index.json"
  printf '{"imageLayoutVersion":"1.0.0"}' >"$dir/oci-layout"
  _tar -C "$dir" blobs index.json oci-layout | write_file 600 "$to"
}

_tar() { tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --format=ustar -cf - "$@"; }

# Moves DIR/NAME among the blobs; prints its hash and size.
_blob() {
  local hash size
  hash=$(sha256_of "$1/$2")
  size=$(stat -c %s "$1/$2")
  mv "$1/$2" "$1/blobs/sha256/$hash"
  echo "$hash $size"
}

_descriptor() { printf '{"mediaType":"application/vnd.oci.%s","digest":"sha256:%s","size":%s%s}' "$1" "${2% *}" "${2#* }" "${3:-}"; }

# Loads an OCI archive as NAME:TAG, and as NAME@sha256:DIGEST, which is how the kubelet looks up a pinned image.
# Prints the latter. A name without a tag gets the tag "local".
load_image() {
  local archive=$1 name=$2 tag=local said reference
  [ -r "$archive" ] || die "cannot read the image archive $archive" "Give one such as 'buildah push IMAGE oci-archive:FILE' writes."
  case ${name##*/} in *:*) tag=${name##*:} name=${name%:*} ;; esac
  [[ $name =~ ^[a-z0-9.-]+(:[0-9]+)?(/[a-z0-9._-]+)+$ && $tag =~ ^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$ ]] ||
    die "'$2' is no image name with a host-like first part" "Use a name such as localhost/agent-sandbox/runner."
  init_pid >/dev/null || die "the node is not running" "Start it: $0 up"
  step "Loading $name:$tag"
  # With --digests the import makes a name from ours and each digest, whatever the archive calls its images.
  said=$(in_node ctr images import --local --digests --base-name "$name" - <"$archive" 2>&1) ||
    die "containerd could not import $archive: $said" "Give an OCI archive, of one image for this machine's architecture."
  reference=$(printf '%s\n' "$said" | grep -o "$name@sha256:[0-9a-f]\{64\}" | sort -u)
  case $reference in
  '' | *"
"*) die "$archive should hold one image, and containerd found: ${reference:-none}" "Push one image into one archive." ;;
  esac
  in_node ctr images tag --force "$reference" "$name:$tag" >/dev/null
  # The kubelet's side of containerd learns of an image by an event, and marks it when it has.
  WAIT_HINT="Read $LOG/containerd.log." wait_for 10 "the kubelet's image list has $reference" _kubelet_sees "$reference"
  ok
  echo "$reference"
}

_kubelet_sees() { in_node ctr images ls "name==$1" | grep -q io.cri-containerd.image=managed; }
