package main

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"taskgate/config"
	"taskgate/policy"
)

// object is what the manifests of examples/kubernetes say that the gateway cares for.
type object struct {
	Kind     string
	Metadata struct{ Name string }
	Data     map[string]string // of a ConfigMap
	Spec     struct {
		Template struct{ Spec pod } // of a Deployment or StatefulSet
		Ports    []struct {
			TargetPort string `yaml:"targetPort"`
		}
	}
}

type pod struct {
	Grace      int `yaml:"terminationGracePeriodSeconds"` // seconds
	Containers []container
}

type container struct {
	Name  string
	Args  []string
	Ports []struct {
		Name string
		Port string `yaml:"containerPort"`
	}
	Readiness probe `yaml:"readinessProbe"`
	Liveness  probe `yaml:"livenessProbe"`
}

type probe struct {
	Get struct{ Path, Port string } `yaml:"httpGet"`
}

// TestKubernetes: the configuration in each manifest is good, and what is around it
// fits: ports, probes, and the time that draining is given.
func TestKubernetes(t *testing.T) {
	files, err := filepath.Glob("../../examples/kubernetes/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no manifests: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			objects := readManifest(t, file)
			c := loadMounted(t, find(t, objects, "ConfigMap").Data)
			workload := find(t, objects, "Deployment", "StatefulSet").Spec.Template.Spec
			i := slices.IndexFunc(workload.Containers, func(c container) bool { return c.Name == "taskgate" })
			if i < 0 {
				t.Fatal("no container is called taskgate")
			}
			if need := c.Timeouts.Drain + 10*time.Second; time.Duration(workload.Grace)*time.Second < need {
				t.Errorf("a pod is killed after %d s; draining needs %v", workload.Grace, need)
			}
			checkContainer(t, workload.Containers[i], c, find(t, objects, "Service").Spec.Ports[0].TargetPort)
		})
	}
}

func checkContainer(t *testing.T, of container, c config.Config, target string) {
	t.Helper()
	if got := strings.Join(of.Args, " "); got != "serve --config /config/config.yaml" {
		t.Errorf("it is called with %q", got)
	}
	ports := map[string]string{}
	for _, p := range of.Ports {
		ports[p.Name] = p.Port
	}
	if ports[target] != portOf(t, c.Listen) {
		t.Errorf("the service sends to port %q (%s), the gateway listens at %s", ports[target], target, c.Listen)
	}
	for want, p := range map[string]probe{"/readyz": of.Readiness, "/healthz": of.Liveness} {
		if p.Get.Path != want || ports[p.Get.Port] != portOf(t, c.AdminListen) {
			t.Errorf("the probe of %s asks %s at port %s", want, p.Get.Path, ports[p.Get.Port])
		}
	}
}

func portOf(t *testing.T, address string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func readManifest(t *testing.T, file string) (objects []object) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for in := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var o object
		if err := in.Decode(&o); errors.Is(err, io.EOF) {
			return objects
		} else if err != nil {
			t.Fatal(err)
		}
		objects = append(objects, o)
	}
}

func find(t *testing.T, objects []object, kinds ...string) object {
	t.Helper()
	i := slices.IndexFunc(objects, func(o object) bool { return slices.Contains(kinds, o.Kind) })
	if i < 0 {
		t.Fatalf("there is no %v", kinds)
	}
	return objects[i]
}

// loadMounted loads config.yaml as if data were mounted at /config.
func loadMounted(t *testing.T, data map[string]string) config.Config {
	t.Helper()
	dir := t.TempDir()
	for name, text := range data {
		text = strings.ReplaceAll(text, "/config/", dir+"/")
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	secrets := []string{"REDIS_PASSWORD=x", "STORE_KEY=" + strings.Repeat("0", 64), "REPORTS_TOKEN=Bearer y"}
	c, err := config.Load(filepath.Join(dir, "config.yaml"), secrets, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := policy.Load(c.Policy, nil); err != nil {
		t.Fatal(err)
	}
	return c
}
