// Holds every Pod, Node, ReplicaSet and Deployment of a cluster in controller-runtime's cache and prints, as one JSON
// object, what that took.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(kubeconfig string) error {
	log.SetLogger(zap.New(zap.WriteTo(os.Stderr)))
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	// client-go's own limit of requests a second would only make it wait.
	config.QPS, config.Burst = -1, -1
	ctx := ctrl.SetupSignalHandler()
	informers, err := cache.New(config, cache.Options{Scheme: scheme.Scheme})
	if err != nil {
		return err
	}
	kinds := []client.Object{&corev1.Pod{}, &corev1.Node{}, &appsv1.ReplicaSet{}, &appsv1.Deployment{}}
	for _, kind := range kinds {
		if _, err := informers.GetInformer(ctx, kind, cache.BlockUntilSynced(false)); err != nil {
			return err
		}
	}
	go func() { _ = informers.Start(ctx) }()
	if !informers.WaitForCacheSync(ctx) {
		return fmt.Errorf("the cache did not sync")
	}
	synced, err := sinceStart()
	if err != nil {
		return err
	}
	cpu := cpuSeconds()
	pods := corev1.PodList{}
	if err := informers.List(context.Background(), &pods, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	held := len(pods.Items)
	pods = corev1.PodList{}
	// What the list left behind is not held: collect it and give it back before looking at the memory.
	runtime.GC()
	debug.FreeOSMemory()
	resident, err := residentBytes()
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{
		"pods": held, "sync_seconds": synced, "cpu_seconds": cpu, "resident_bytes": resident,
	})
}

// sinceStart counts from the moment at which this process was asked for, as the caller noted it.
func sinceStart() (float64, error) {
	started, err := strconv.ParseFloat(os.Getenv("STARTED"), 64)
	return float64(time.Now().UnixMicro())/1e6 - started, err
}

func cpuSeconds() float64 {
	usage := syscall.Rusage{}
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds()
}

func residentBytes() (int, error) {
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, err
	}
	pages, err := strconv.Atoi(strings.Fields(string(statm))[1])
	return pages * os.Getpagesize(), err
}
