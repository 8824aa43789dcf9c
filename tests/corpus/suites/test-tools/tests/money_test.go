package money

import "testing"

func TestSum(t *testing.T) {
	if 1+1 != 2 {
		t.Fatal("sum")
	}
}
