/** Warns of an `llm` and of parts that no stage uses. */
import { selectAgentStages } from '../../plan-rules/mock-agents.ts';
import type { Plan } from '../../plan/plan.ts';
import { hasAgent } from '../read/stage-facts.ts';
import type { Problems } from '../text/diagnostics.ts';
import type { Spec, StageSpec } from '../read/spec.ts';
import { quote } from '../../units/quote.ts';

/**
 * Warns of an `llm` that no stage uses.
 * @param plan  with the stages of the parts
 */
export function warnOfUnused(spec: Spec, plan: Pick<Plan, 'stages'>, problems: Problems): void {
  // A stage that could not be read may be an agent.
  const { written, hasMore } = spec.lostNames;
  if (written.size > 0 || hasMore) return;
  const isAnswered = (stage: StageSpec): boolean => hasAgent(stage) || stage.agent !== null || stage.isShell;
  if (spec.llm === null || spec.stages.some(isAnswered)) return;
  const [ofPart] = selectAgentStages(plan);
  if (ofPart !== undefined)
    problems.warning(
      'spec/unsupported',
      spec.llm.at,
      `\`llm\` has no effect: the agent ${ofPart} is in a part, which does not inherit \`llm\` from the spec that uses it`,
      'move `llm` to the part, or to its stage',
    );
  else
    problems.warning(
      'spec/unsupported',
      spec.llm.at,
      '`llm` has no effect: no stage is an agent',
      'remove it, or write a stage with `prompt` or `skill`',
    );
}

/** Warns only for the first file: a file that others use may contain more parts than they need. */
export function warnOfUnusedParts(spec: Spec, problems: Problems): void {
  const used = new Set(spec.stages.map(({ uses }) => uses?.value));
  // A loop over a list also visits members that are added while it runs.
  const reached = spec.parts.filter(({ name }) => used.has(name.value));
  for (const { spec: part } of reached)
    for (const { uses } of part?.stages ?? []) {
      const next = spec.parts.find(({ name }) => name.value === uses?.value);
      if (next !== undefined && !reached.includes(next)) reached.push(next);
    }
  for (const part of spec.parts)
    if (!reached.includes(part))
      problems.warning(
        'spec/part-unused',
        part.name.at,
        `part ${quote(part.name.value)} is not used by any stage and never runs`,
        `write \`uses: ${part.name.value}\` in a stage, or remove it`,
      );
}
