// Command netpold enforces NetworkPolicy on one node: kube-router's firewall controller, and nothing else of it.
//
// It takes kube-router's own flags. Of those, only the ones its policy controller reads have an effect here.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/cloudnativelabs/kube-router/v2/pkg/controllers/netpol"
	"github.com/cloudnativelabs/kube-router/v2/pkg/healthcheck"
	"github.com/cloudnativelabs/kube-router/v2/pkg/options"
	"github.com/cloudnativelabs/kube-router/v2/pkg/svcip"
	"github.com/spf13/pflag"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintf(os.Stderr, "netpold: %v\n", err)
		os.Exit(1)
	}
}

func run() error {
	klog.InitFlags(nil)
	config := options.NewKubeRouterConfig()
	config.AddFlags(pflag.CommandLine)
	pflag.Parse()
	if err := flag.Set("v", config.VLevel); err != nil {
		return fmt.Errorf("log level %q: %w", config.VLevel, err)
	}

	// Whatever makes this process end, its init starts it again; rules already in the kernel stay in force meanwhile.
	stop := make(chan struct{})
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)

	restConfig, err := clientcmd.BuildConfigFromFlags(config.Master, config.Kubeconfig)
	if err != nil {
		return fmt.Errorf("kubeconfig %s: %w", config.Kubeconfig, err)
	}
	restConfig.UserAgent = "netpold"
	client, err := kubernetes.NewForConfig(restConfig)
	if err != nil {
		return fmt.Errorf("kubernetes client: %w", err)
	}
	ranges, err := svcip.NewValidator(svcip.Config{
		ExternalIPCIDRs:   config.ExternalIPCIDRs,
		LoadBalancerCIDRs: config.LoadBalancerCIDRs,
		ClusterIPCIDRs:    config.ClusterIPCIDRs,
		EnableIPv4:        config.EnableIPv4,
		EnableIPv6:        config.EnableIPv6,
	})
	if err != nil {
		return fmt.Errorf("address ranges: %w", err)
	}

	factory := informers.NewSharedInformerFactory(client, 0)
	pods := factory.Core().V1().Pods().Informer()
	policies := factory.Networking().V1().NetworkPolicies().Informer()
	namespaces := factory.Core().V1().Namespaces().Informer()
	factory.Start(stop)
	for kind, synced := range factory.WaitForCacheSync(stop) {
		if !synced {
			return fmt.Errorf("could not list %v", kind)
		}
	}

	tables, sets, err := netpol.NewIPTablesHandlers(config)
	if err != nil {
		return fmt.Errorf("iptables and ipset: %w", err)
	}
	var ipsets sync.Mutex
	controller, err := netpol.NewNetworkPolicyController(
		client, config, pods, policies, namespaces, &ipsets, nil, tables, sets, ranges)
	if err != nil {
		return fmt.Errorf("policy controller: %w", err)
	}
	if err := errors.Join(
		handle(pods, controller.PodEventHandler),
		handle(policies, controller.NetworkPolicyEventHandler),
		handle(namespaces, controller.NamespaceEventHandler),
	); err != nil {
		return fmt.Errorf("event handlers: %w", err)
	}

	// kube-router's health controller would read these; nobody does here, and an unread channel would block the controller.
	heartbeats := make(chan *healthcheck.ControllerHeartbeat, 10)
	go func() {
		for range heartbeats {
		}
	}()
	var running sync.WaitGroup
	running.Add(1)
	go controller.Run(heartbeats, stop, &running)

	<-signals
	close(stop)
	running.Wait()
	return nil
}

func handle(informer cache.SharedIndexInformer, handler cache.ResourceEventHandler) error {
	_, err := informer.AddEventHandler(handler)
	return err
}
