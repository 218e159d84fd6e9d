package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"time"
)

// upstreamPolicy is a merge policy; its top level has always been strict.
type upstreamPolicy struct {
	Type       string          `json:"type"`
	Parameters json.RawMessage `json:"parameters"`
}

// upstreamPolicyParams are those of both policies. A header may be set to nothing, which is not the same as not set.
type upstreamPolicyParams struct {
	FairnessHeader    *string           `json:"fairness_header"`
	FairnessAttribute string            `json:"fairness_attribute"`
	PriorityHeader    *string           `json:"priority_header"`
	TierLabel         string            `json:"tier_label"`
	ObjectiveHeader   string            `json:"objective_header"`
	LaneObjectives    map[string]string `json:"lane_objectives"`
	Ageing            string            `json:"ageing"` // ours
}

func (u *Upstream) policy(c *Config) error {
	file := u.PolicyFile
	if file == "" {
		file = u.old.policy
	}
	if file == "" {
		return nil
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := c.mergePolicy(file, raw); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

func (c *Config) mergePolicy(file string, raw []byte) error {
	var in upstreamPolicy
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		return readable(raw, err)
	}
	var p upstreamPolicyParams
	if len(in.Parameters) > 0 {
		if err := c.readJSON(file, in.Parameters, &p); err != nil {
			return err
		}
	}
	to := &c.Dispatch
	if in.Type != "" {
		to.Policy = in.Type
	}
	if p.FairnessHeader != nil {
		to.FairnessHeader = *p.FairnessHeader
	}
	if p.FairnessAttribute != "" {
		to.FairnessAttribute = p.FairnessAttribute
	}
	if p.PriorityHeader != nil {
		to.PriorityHeader = *p.PriorityHeader
	}
	if p.TierLabel != "" {
		to.TierLabel = p.TierLabel
	}
	if p.ObjectiveHeader != "" {
		to.ObjectiveHeaders = []string{p.ObjectiveHeader}
	}
	to.LaneObjectives = p.LaneObjectives
	if p.Ageing != "" {
		var err error
		if to.Ageing, err = time.ParseDuration(p.Ageing); err != nil {
			return fmt.Errorf("ageing: %w", err)
		}
	}
	return nil
}
