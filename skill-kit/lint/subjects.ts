/** The subjects that rules check. */
import type { SkillDefinition, StepConfig } from '../../domain/step-machine/definition.ts';
import type { Edges } from '../../domain/step-machine/graph.ts';
import type { BuilderSource } from './builders.ts';
import type { Insights } from './insight.ts';
import type { PromptSource } from './prompt-source.ts';
import type { SkillInsight } from './skill-insight.ts';
import type { Place, Sources } from './sources.ts';

/** A built skill, with facts from its source if that is available. */
export interface SkillSubject {
  readonly definition: SkillDefinition;
  readonly insight: SkillInsight;
  /** From each step, names that functions return included. */
  readonly edges: Edges;
  /** The params of a sub-skill are given by code. */
  readonly isSubskill: boolean;
}

export interface StepSubject extends SkillSubject {
  readonly step: string;
  readonly config: StepConfig;
}

/** The files of a skill. */
export interface SourceSubject {
  readonly sources: Sources;
  readonly builders: readonly BuilderSource[];
  readonly insights: Insights;
  /** The prompts of all steps that have one. */
  readonly prompts: readonly SourcePrompt[];
  /** Where the entry exports the skill: for what has no place of its own. */
  readonly whole: Place;
  /** Paths below `references/`. @throws CodedError `skill/unusable` when the folder cannot be read */
  orphanReferences(): readonly string[];
}

export interface SourcePrompt {
  /** Null if the step has no name of its own, because several skills may use it. */
  readonly step: string | null;
  readonly prompt: PromptSource;
}
