package redistest

import "syscall"

// withParent has the server die with the test's process, even one that panics.
func withParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
