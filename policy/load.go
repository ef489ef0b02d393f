package policy

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// maxFileBytes bounds a policy file.
const maxFileBytes = 4 << 20

// Default is the set without any file.
func Default() *Set {
	s, _ := compile(nil, nil) // nothing can be wrong with what is compiled in
	return s
}

// Load reads policy files, in the order of their names whatever the order of
// the arguments. A directory stands for the .yaml and .yml files in it. sees says
// which headers conditions may read. The error is a Findings with everything that
// is wrong, and with the warnings.
func Load(files []string, sees Sees) (*Set, error) {
	contents, findings := readAll(files)
	return finish(contents, findings, sees)
}

// finish compiles what was read, unless something could not be.
func finish(contents []content, findings Findings, sees Sees) (*Set, error) {
	set, more := compile(contents, sees)
	if findings = append(findings, more...); findings.Failed() {
		findings.sort()
		return nil, findings
	}
	return set, nil
}

// content is a file as it was read.
type content struct {
	name string
	data []byte
}

func readAll(files []string) ([]content, Findings) {
	var out []content
	var findings Findings
	names, err := expand(files)
	if err != nil {
		findings = append(findings, Finding{Error, "policy", 0, err.Error()})
	}
	for _, name := range names {
		data, err := readFile(name)
		if err != nil {
			findings = append(findings, Finding{Error, name, 0, err.Error()})
			continue
		}
		out = append(out, content{name, data})
	}
	return out, findings
}

// expand replaces directories by the policy files in them and sorts by name. A
// path that cannot be looked at is kept, so that reading it says why. A directory
// without policy files is an error: it is likelier that they are not there yet
// than that there are to be none.
func expand(files []string) (names []string, err error) {
	for _, name := range files {
		entries, readErr := os.ReadDir(name)
		if readErr != nil {
			names = append(names, name)
			continue
		}
		before := len(names)
		for _, e := range entries {
			if isPolicyName(e.Name()) {
				names = append(names, filepath.Join(name, e.Name()))
			}
		}
		if len(names) == before {
			err = errors.Join(err, fmt.Errorf("the directory %s has no .yaml or .yml files", name))
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(filepath.Base(a), filepath.Base(b)), cmp.Compare(a, b))
	})
	return slices.Compact(names), err
}

// isPolicyName leaves out hidden files, among them what editors and mounted
// ConfigMaps keep beside the real ones.
func isPolicyName(name string) bool {
	ext := filepath.Ext(name)
	return !strings.HasPrefix(name, ".") && (ext == ".yaml" || ext == ".yml")
}

func readFile(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err == nil && info.Size() > maxFileBytes {
		return nil, fmt.Errorf("the file has %d bytes; a policy file has at most %d", info.Size(), maxFileBytes)
	}
	if err != nil {
		return nil, reason(err)
	}
	data, err := os.ReadFile(name)
	return data, reason(err)
}

// reason drops the path, which the finding names already.
func reason(err error) error {
	if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

// hashOf names the content of files.
func hashOf(contents []content) string {
	h := sha256.New()
	for _, c := range contents {
		fmt.Fprintf(h, "%q %d\n", filepath.Base(c.name), len(c.data))
		h.Write(c.data)
	}
	return hex.EncodeToString(h.Sum(nil))[:12]
}

func isDir(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}
