// Package multicall runs one of several programs that share a file: the one
// that the file was called by.
package multicall

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
)

// Command builds a program's command only when it is the one that runs: their
// constructors register flags and metrics that would get in each other's way.
func Command(build func() *cobra.Command) func() int {
	return func() int { return cli.Run(build()) }
}

// Run runs the program whose name the file was called by and exits with its
// status; 2 where there is no such program.
func Run(programs map[string]func() int) {
	run, known := programs[filepath.Base(os.Args[0])]
	if !known {
		names := slices.Sorted(maps.Keys(programs))
		fmt.Fprintln(os.Stderr, "link this program as one of:", strings.Join(names, ", "))
		os.Exit(2)
	}
	os.Exit(run())
}
