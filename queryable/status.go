package queryable

import (
	"github.com/gofiber/fiber/v2"
)

// health is GET /healthz: the process answers.
func (a *API) health(c *fiber.Ctx) error {
	return c.JSON(map[string]bool{"ok": true})
}

// ready is GET /readyz: whether the appliance serves, and its state.
func (a *API) ready(c *fiber.Ctx) error {
	state, ok := a.b.Ready()
	if !ok {
		c.Status(fiber.StatusServiceUnavailable)
	}
	return c.JSON(struct {
		Ready bool   `json:"ready"`
		State string `json:"state"`
	}{ok, state})
}

// status is GET /api/v1/status.
func (a *API) status(c *fiber.Ctx) error {
	s := a.b.Status()
	a.answerHeaders(c, Answer{Epoch: s.Epoch})
	return c.JSON(s)
}

// topology is GET /api/v1/topology.
func (a *API) topology(c *fiber.Ctx) error {
	epoch, _, _ := a.b.Changed()
	a.answerHeaders(c, Answer{Epoch: epoch})
	return c.JSON(a.b.Topology())
}
