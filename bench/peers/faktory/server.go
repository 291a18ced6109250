//go:build server

// Names the program that scripts/setup.sh builds, so that go.mod and go.sum have all that it needs.
package peer

import _ "github.com/contribsys/faktory/cmd/faktory"
