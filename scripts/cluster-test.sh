#!/usr/bin/env bash
# The chart and a sidecar on a cluster of kind with two workers: installed, updated and drained under load, and every element
# counted. Needs docker, kind, kubectl, helm and redis-cli.
set -euo pipefail

cd "$(dirname "$0")/.."
cluster=delaybridge-test
image=delaybridge:cluster-test
rate=100 # elements a second
work=$(mktemp -d)
export KUBECONFIG=$work/kubeconfig

fail() {
  echo "cluster-test: $*" >&2
  kubectl get pods --all-namespaces --output wide >&2 || true
  kubectl logs --selector app.kubernetes.io/name=delaybridge --tail 50 --prefix >&2 || true
  exit 1
}
step() { echo "cluster-test: $*"; }
for tool in docker kind kubectl helm; do
  command -v $tool >/dev/null || fail "find $tool: not in PATH"
done
finish() {
  [ -z "${producer:-}" ] || kill "$producer" || true
  kind delete cluster --name $cluster >/dev/null 2>&1 || true
  rm -rf "$work"
}
trap finish EXIT

step "image"
docker build --quiet --build-arg REVISION="$(git rev-parse HEAD)" --tag $image . >/dev/null
step "cluster"
cat >"$work/kind.yaml" <<'YAML'
kind: Cluster
apiVersion: kind.x-k8s.io/v1alpha4
nodes: [{ role: control-plane }, { role: worker }, { role: worker }]
YAML
kind create cluster --name $cluster --config "$work/kind.yaml" --wait 120s
kind load docker-image $image --name $cluster

step "redis"
kubectl create deployment redis --image docker.io/library/redis:8.2-bookworm -- redis-server --save '' --requirepass secret
kubectl expose deployment redis --port 6379
kubectl rollout status deployment/redis --timeout 120s
redis() { kubectl exec deployment/redis -- redis-cli -a secret --no-auth-warning "$@"; }

step "chart"
cat >"$work/delaybridge.yaml" <<'YAML'
redis: { url: "redis://redis:6379/0", password_file: redis-password }
sinks: { out: { redis: { stream: out } } }
queues: { load: { source: { zset: { key: load } }, to: [{ sink: out }] } }
YAML
kubectl create secret generic delaybridge --from-literal redis-password=secret
release=(helm upgrade --install delaybridge deploy/helm/delaybridge --set-file "config=$work/delaybridge.yaml"
  --set "image.repository=${image%%:*},image.tag=${image##*:},minReadySeconds=5" --wait --timeout 3m)
"${release[@]}" || fail "install the chart"

step "load: $rate elements a second"
offer() {
  local n=0
  while :; do
    # Scores in seconds, a few of them ahead.
    redis eval "local now = redis.call('TIME')[1]
      for i = 1, ARGV[1] do redis.call('ZADD', 'load', now + 1 + i % 3, 'element ' .. (ARGV[2] + i)) end" 0 $rate $n >/dev/null && n=$((n + rate))
    echo $n >"$work/offered"
    sleep 1
  done
}
offer &
producer=$!
sleep 10

step "rolling update"
"${release[@]}" --set podAnnotations.change=one || fail "update the pods"
step "an invalid configuration stops the rollout"
echo 'quues: {}' >>"$work/delaybridge.yaml"
! "${release[@]}" --timeout 40s || fail "roll an invalid configuration out: it went well"
helm rollback delaybridge --wait --timeout 3m || fail "go back"
step "drained node"
node=$(kubectl get pods --selector app.kubernetes.io/name=delaybridge --output jsonpath='{.items[0].spec.nodeName}')
kubectl drain "$node" --ignore-daemonsets --delete-emptydir-data --timeout 180s --pod-selector 'app.kubernetes.io/name=delaybridge' || fail "drain $node"
kubectl rollout status deployment/delaybridge --timeout 120s
kubectl uncordon "$node"

step "sidecar"
helm dependency build deploy/helm/sidecar-example >/dev/null
helm upgrade --install orders deploy/helm/sidecar-example --set image=registry.k8s.io/pause:3.10 \
  --set-string "delaybridge.config=$(sed '$d' "$work/delaybridge.yaml")" \
  --set "delaybridge.image.repository=${image%%:*},delaybridge.image.tag=${image##*:}" --wait --timeout 3m || fail "install the sidecar"

step "everything has arrived"
kill $producer
producer=
offered=$(cat "$work/offered")
for _ in $(seq 60); do
  [ "$(redis zcard load)" = 0 ] && [ "$(redis zcard 'delaybridge:retry:{load}')" = 0 ] && break
  sleep 1
done
distinct=$(redis --raw xrange out - + | grep '^element ' | sort -u | wc -l)
entries=$(redis xlen out)
[ "$distinct" = "$offered" ] || fail "$offered offered, $distinct arrived"
step "well: $offered offered, none lost, $((entries - distinct)) twice"
