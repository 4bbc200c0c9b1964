package rest

import "testing"

func checkAgainstSpecs(t *testing.T, system string, requests []heard) {}
