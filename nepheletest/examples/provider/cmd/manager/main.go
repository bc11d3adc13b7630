// The manager of the provider.
package main

import (
	"flag"
	"log/slog"
	"os"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	plainbootstrap "example.com/plain-bootstrap"
)

func main() {
	health := flag.String("health-probe-bind-address", ":8081", "where probes are answered")
	metrics := flag.String("metrics-bind-address", ":8080", "where metrics are served")
	flag.Parse()
	ctrl.SetLogger(logr.FromSlogHandler(slog.NewTextHandler(os.Stderr, nil)))
	if err := run(*health, *metrics); err != nil {
		slog.Error("failed to run", "error", err)
		os.Exit(1)
	}
}

func run(health, metrics string) error {
	scheme := runtime.NewScheme()
	if err := plainbootstrap.AddToScheme(scheme); err != nil {
		return err
	}
	manager, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		Scheme: scheme, HealthProbeBindAddress: health, Metrics: metricsserver.Options{BindAddress: metrics},
	})
	if err != nil {
		return err
	}
	if err := manager.AddReadyzCheck("ping", healthz.Ping); err != nil {
		return err
	}
	if err := plainbootstrap.AddToManager(manager); err != nil {
		return err
	}
	return manager.Start(ctrl.SetupSignalHandler())
}
