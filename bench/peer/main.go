// Command peer-solver runs upstream Karpenter's scheduling on one solve document and prints as JSON how long it took and what
// came out, so that the scheduling bench can put it beside the same work done by karpenter-capi.
//
// It calls what the provisioner of upstream calls, in its order: NewTopology, NewScheduler, Solve, TruncateInstanceTypes. The API
// server is controller-runtime's fake client, and the clock stands still. Every run has a world of its own.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	"sigs.k8s.io/karpenter/pkg/operator/logging"
)

const karpenterModule = "sigs.k8s.io/karpenter"

// report is what the program prints.
type report struct {
	Version string `json:"version"`
	Go      string `json:"go"`
	Runs    []run  `json:"runs"`
}

// run is one solve; times are milliseconds, CPU times those of the whole process, garbage collection included.
type run struct {
	TopologyMillis     float64 `json:"topologyMillis"`
	TopologyCPUMillis  float64 `json:"topologyCpuMillis"`
	SchedulerMillis    float64 `json:"schedulerMillis"`
	SchedulerCPUMillis float64 `json:"schedulerCpuMillis"`
	SolveMillis        float64 `json:"solveMillis"`
	SolveCPUMillis     float64 `json:"solveCpuMillis"`
	Allocations        uint64  `json:"allocations"`
	AllocatedBytes     uint64  `json:"allocatedBytes"`
	outcome
}

func main() {
	runs := flag.Int("runs", 1, "how many independent runs")
	flag.Parse()
	log.SetLogger(logging.NopLogger)
	if err := measure(os.Stdin, os.Stdout, *runs); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func measure(in io.Reader, out io.Writer, runs int) error {
	document, err := read(in)
	if err != nil {
		return fmt.Errorf("reading the document: %w", err)
	}
	result := report{Version: moduleVersion(karpenterModule), Go: runtime.Version()}
	for range runs {
		one, err := solve(document)
		if err != nil {
			return err
		}
		result.Runs = append(result.Runs, one)
	}
	return json.NewEncoder(out).Encode(result)
}

func solve(document *document) (run, error) {
	world, err := newWorld(document)
	if err != nil {
		return run{}, fmt.Errorf("making the cluster: %w", err)
	}
	nodes := world.cluster.DeepCopyNodes().Active()
	volumes, inTopology := world.volumeRequirements()
	options := document.Options.forScheduler()
	// What making the world left behind is not to be collected on the scheduler's time.
	runtime.GC()

	var result run
	watch := startWatch()
	topology, err := scheduling.NewTopology(
		world.ctx, world.client, world.cluster, nodes, world.nodePools, world.instanceTypes, inTopology, options...)
	if err != nil {
		return run{}, fmt.Errorf("making the topology: %w", err)
	}
	result.TopologyMillis, result.TopologyCPUMillis = watch.lap()
	scheduler := scheduling.NewScheduler(
		world.ctx, world.client, world.nodePools, world.cluster, nodes, topology, world.instanceTypes, world.daemonPods,
		world.recorder, world.clock, volumes, nil, options...)
	result.SchedulerMillis, result.SchedulerCPUMillis = watch.lap()

	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	watch = startWatch()
	results, err := scheduler.Solve(world.ctx, world.pods)
	result.SolveMillis, result.SolveCPUMillis = watch.lap()
	runtime.ReadMemStats(&after)
	if err != nil {
		return run{}, fmt.Errorf("solving: %w", err)
	}
	result.Allocations = after.Mallocs - before.Mallocs
	result.AllocatedBytes = after.TotalAlloc - before.TotalAlloc
	result.outcome = outcomeOf(results.TruncateInstanceTypes(world.ctx, document.Options.mostInstanceTypes()))
	return result, nil
}

// stopwatch measures wall and CPU time between laps.
type stopwatch struct {
	wall time.Time
	cpu  time.Duration
}

func startWatch() *stopwatch {
	return &stopwatch{wall: time.Now(), cpu: cpuTime()}
}

func (w *stopwatch) lap() (wallMillis, cpuMillis float64) {
	wall, cpu := time.Now(), cpuTime()
	wallMillis, cpuMillis = millis(wall.Sub(w.wall)), millis(cpu-w.cpu)
	w.wall, w.cpu = wall, cpu
	return wallMillis, cpuMillis
}

func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func millis(d time.Duration) float64 {
	return float64(d) / float64(time.Millisecond)
}

func moduleVersion(path string) string {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, module := range build.Deps {
		if module.Path == path {
			return module.Version
		}
	}
	return "unknown"
}
