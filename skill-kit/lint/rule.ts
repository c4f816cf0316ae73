/** The interface of a lint rule. Each rule has a file below `rules/`, and `rules.ts` lists them. */
import type { Place } from './sources.ts';
import type { SkillSubject, SourceSubject, StepSubject } from './subjects.ts';

export interface Rule {
  /** The name of the rule in its diagnostics. */
  readonly code: string;
  /** The severity of its diagnostics; if the rule has both, each diagnostic sets one. */
  readonly severity: 'error' | 'warning' | 'error or warning';
  /** What is wrong, in the words of docs/reference/skill-lint.md. */
  readonly about: string;
  readonly remedy: string;
  readonly check: Checks;
}

/**
 * The checks of a rule. This file imports only types of the source, because authors load every rule with `checkSkill`,
 * without a parser.
 */
export interface Checks {
  /** Each skill once, sub-skills included. */
  skill?(subject: SkillSubject, tell: Tell): void;
  /** Each of its steps, after all rules have looked at the skill. */
  step?(subject: StepSubject, tell: Tell): void;
  /** Checks all files at once, even if the skill cannot be loaded. */
  source?(subject: SourceSubject, tell: TellAt): void;
}

/** The builder refuses it by the same check: `domain/step-machine/diagnose.ts`. */
export const BY_BUILDER: Checks = {};
/** It is met while the skill is loaded. */
export const BY_LOADER: Checks = {};

export type Tell = (message: string, more?: SkillDetails) => void;

export interface SkillDetails {
  readonly severity?: 'error' | 'warning';
  readonly step?: string;
  /** Which of the step's questions. */
  readonly ask?: number;
  /** The name in question, if it is one that a `next` function returns. */
  readonly target?: string;
}

export type TellAt = (place: Place, message: string, more?: SourceDetails) => void;

export interface SourceDetails {
  readonly step?: string;
  /** In place of the rule's own. */
  readonly remedy?: string;
  /** The subject of the diagnostic: lint reports it once for each place, though several steps share the text. */
  readonly once?: string;
}
