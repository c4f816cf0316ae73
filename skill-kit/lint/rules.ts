/** Every rule of lint, in the order in which they look and in which docs/reference/skill-lint.md has them. Names and severities are a contract. */
import type { Rule } from './rule.ts';
import { compositeDuplicateSubskill } from './rules/composite-duplicate-subskill.ts';
import { compositeDuplicateTopic } from './rules/composite-duplicate-topic.ts';
import { compositeStepName } from './rules/composite-step-name.ts';
import { cycleGuard } from './rules/cycle-guard.ts';
import { definition } from './rules/definition.ts';
import { duplicateStep } from './rules/duplicate-step.ts';
import { entryStep } from './rules/entry-step.ts';
import { envNames } from './rules/env-names.ts';
import { hostBranchingDensity } from './rules/host-branching-density.ts';
import { noHostToolNames } from './rules/no-host-tool-names.ts';
import { noJsonSchema } from './rules/no-json-schema.ts';
import { orphanReferences } from './rules/orphan-references.ts';
import { parallelJoin } from './rules/parallel-join.ts';
import { primitiveSchemaMismatch } from './rules/primitive-schema-mismatch.ts';
import { reservedName } from './rules/reserved-name.ts';
import { stepFields } from './rules/step-fields.ts';
import { stepNumbers } from './rules/step-numbers.ts';
import { syntax } from './rules/syntax.ts';
import { unknownTarget } from './rules/unknown-target.ts';
import { unknownToolNames } from './rules/unknown-tool-names.ts';
import { unreachableStep } from './rules/unreachable-step.ts';
import { unreadableStep } from './rules/unreadable-step.ts';

const TABLE = [
  syntax,
  definition,
  entryStep,
  stepFields,
  stepNumbers,
  parallelJoin,
  envNames,
  reservedName,
  compositeStepName,
  unreadableStep,
  duplicateStep,
  compositeDuplicateSubskill,
  compositeDuplicateTopic,
  unknownTarget,
  noHostToolNames,
  unknownToolNames,
  hostBranchingDensity,
  noJsonSchema,
  primitiveSchemaMismatch,
  cycleGuard,
  unreachableStep,
  orphanReferences,
] as const satisfies readonly Rule[];

export type RuleName = (typeof TABLE)[number]['code'];

export interface ListedRule extends Rule {
  readonly code: RuleName;
}

export const RULES: readonly ListedRule[] = TABLE;

const BY_CODE = new Map(RULES.map((rule) => [rule.code, rule]));

export function ruleOf(code: RuleName): ListedRule {
  return BY_CODE.get(code)!;
}
