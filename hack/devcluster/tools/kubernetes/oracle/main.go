// The kubelet's own device manager behind one line of JSON each way, to compare the simulated kubelet with.
//
// It is driven on standard input: a request a line, an answer a line. Plugins reach it over its sockets as they reach
// any kubelet.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	_ "unsafe" // for go:linkname

	cadvisor "github.com/google/cadvisor/info/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
)

// The exported constructor has its socket's path built in.
//
//go:linkname newManagerImpl k8s.io/kubernetes/pkg/kubelet/cm/devicemanager.newManagerImpl
func newManagerImpl(klog.Logger, string, []cadvisor.Node, topologymanager.Store) (*devicemanager.ManagerImpl, error)

type container struct {
	Name    string           `json:"name"`
	Limits  map[string]int64 `json:"limits"`
	Sidecar bool             `json:"sidecar"`
}

type pod struct {
	UID        string      `json:"uid"`
	Init       []container `json:"init"`
	Containers []container `json:"containers"`
}

type request struct {
	Op        string     `json:"op"`
	Folder    string     `json:"folder"`
	Running   [][]string `json:"running"`
	Ready     bool       `json:"ready"`
	Pod       pod        `json:"pod"`
	Container string     `json:"container"`
	Active    []pod      `json:"active"`
}

type answer struct {
	Error       string            `json:"error"`
	Capacity    map[string]int64  `json:"capacity,omitempty"`
	Allocatable map[string]int64  `json:"allocatable,omitempty"`
	Dropped     []string          `json:"dropped,omitempty"`
	Held        []string          `json:"held,omitempty"`
	Environment map[string]string `json:"environment,omitempty"`
}

// What the device manager asks the rest of the kubelet.
type surroundings struct {
	active []*v1.Pod
	ready  bool
}

func (s *surroundings) AddSource(string) {}
func (s *surroundings) AllReady() bool   { return s.ready }

type oracle struct {
	manager *devicemanager.ManagerImpl
	around  *surroundings
}

func (o *oracle) start(r request) error {
	socket := filepath.Join(r.Folder, "kubelet.sock")
	manager, err := newManagerImpl(klog.Background(), socket, nil, topologymanager.NewFakeManager())
	if err != nil {
		return err
	}
	o.manager, o.around = manager, &surroundings{ready: r.Ready, active: pods(r.Active)}
	containers, running := containermap.NewContainerMap(), sets.New[string]()
	for number, each := range r.Running {
		id := fmt.Sprint(number)
		containers.Add(each[0], each[1], id)
		running.Insert(id)
	}
	return manager.Start(klog.Background(), func() []*v1.Pod { return o.around.active }, o.around, containers, running)
}

func (o *oracle) admit(p *v1.Pod) error {
	for index := range p.Spec.InitContainers {
		if err := o.manager.Allocate(p, &p.Spec.InitContainers[index]); err != nil {
			return err
		}
	}
	for index := range p.Spec.Containers {
		if err := o.manager.Allocate(p, &p.Spec.Containers[index]); err != nil {
			return err
		}
	}
	return nil
}

func (o *oracle) given(r request) (map[string]string, error) {
	p := podOf(r.Pod)
	for _, each := range append(p.Spec.InitContainers, p.Spec.Containers...) {
		if each.Name != r.Container {
			continue
		}
		options, err := o.manager.GetDeviceRunContainerOptions(context.Background(), p, &each)
		if err != nil || options == nil {
			return nil, err
		}
		environment := map[string]string{}
		for _, variable := range options.Envs {
			environment[variable.Name] = variable.Value
		}
		return environment, nil
	}
	return nil, fmt.Errorf("no container is named %s", r.Container)
}

func (o *oracle) held(uid, name string) []string {
	held := []string{}
	for resourceName, devices := range o.manager.GetDevices(uid, name) {
		for id := range devices {
			held = append(held, resourceName+" "+id)
		}
	}
	sort.Strings(held)
	return held
}

func (o *oracle) do(r request) answer {
	switch r.Op {
	case "start":
		return failed(o.start(r))
	case "stop":
		return failed(o.manager.Stop(klog.Background()))
	case "ready":
		o.around.ready = true
		return answer{}
	case "active":
		o.around.active = pods(r.Active)
		return answer{}
	case "admit":
		return failed(o.admit(podOf(r.Pod)))
	case "given":
		environment, err := o.given(r)
		return answer{Error: failed(err).Error, Environment: environment}
	case "held":
		o.manager.UpdateAllocatedDevices()
		return answer{Held: o.held(r.Pod.UID, r.Container)}
	case "offer":
		capacity, allocatable, dropped := o.manager.GetCapacity()
		return answer{Capacity: counts(capacity), Allocatable: counts(allocatable), Dropped: dropped}
	}
	return answer{Error: "no operation is named " + r.Op}
}

func failed(err error) answer {
	if err != nil {
		return answer{Error: err.Error()}
	}
	return answer{}
}

func counts(list v1.ResourceList) map[string]int64 {
	found := map[string]int64{}
	for name, amount := range list {
		found[string(name)] = amount.Value()
	}
	return found
}

func pods(described []pod) []*v1.Pod {
	found := []*v1.Pod{}
	for _, each := range described {
		found = append(found, podOf(each))
	}
	return found
}

func podOf(described pod) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: types.UID(described.UID), Name: "pod-" + described.UID, Namespace: "default"},
		Spec:       v1.PodSpec{InitContainers: containers(described.Init), Containers: containers(described.Containers)},
	}
}

func containers(described []container) []v1.Container {
	found := []v1.Container{}
	for _, each := range described {
		limits := v1.ResourceList{}
		for name, amount := range each.Limits {
			limits[v1.ResourceName(name)] = *resource.NewQuantity(amount, resource.DecimalSI)
		}
		made := v1.Container{Name: each.Name, Resources: v1.ResourceRequirements{Limits: limits}}
		if each.Sidecar {
			always := v1.ContainerRestartPolicyAlways
			made.RestartPolicy = &always
		}
		found = append(found, made)
	}
	return found
}

func main() {
	requests := bufio.NewScanner(os.Stdin)
	requests.Buffer(nil, 1<<20)
	answers := json.NewEncoder(os.Stdout)
	served := &oracle{}
	for requests.Scan() {
		var r request
		if err := json.Unmarshal(requests.Bytes(), &r); err != nil {
			_ = answers.Encode(answer{Error: err.Error()})
			continue
		}
		_ = answers.Encode(served.do(r))
	}
}
