/** What a spec says and no stage asks for. */
import { agentStages } from '../../plan-rules/mock-agents.ts';
import type { Plan } from '../../plan/plan.ts';
import { hasAgent } from '../read/stage-facts.ts';
import type { Problems } from '../text/diagnostics.ts';
import type { Spec, StageSpec } from '../read/spec.ts';
import { quote } from '../../units/quote.ts';

/**
 * Warns of what the spec says and no stage asks for.
 * @param plan  with the stages of the parts
 */
export function warnOfUnused(spec: Spec, plan: Pick<Plan, 'stages'>, problems: Problems): void {
  // Of a stage that could not be read nobody knows what it is.
  const { written, hasMore } = spec.lostNames;
  if (written.size > 0 || hasMore) return;
  const isAnswered = (stage: StageSpec): boolean => hasAgent(stage) || stage.agent !== null || stage.isShell;
  if (spec.llm === null || spec.stages.some(isAnswered)) return;
  const [ofPart] = agentStages(plan);
  if (ofPart !== undefined)
    problems.warning(
      'spec/unsupported',
      spec.llm.at,
      `\`llm\` has no effect: the agent ${ofPart} is in a part, which takes no \`llm\` from the spec that uses it`,
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

/** Parts of the first file alone: a file that others use may hold more than they take. */
export function warnOfUnusedParts(spec: Spec, problems: Problems): void {
  const used = new Set(spec.stages.map(({ uses }) => uses?.value));
  // A list that grows while it is walked is walked to its end.
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
        `part ${quote(part.name.value)} is used by no stage and never runs`,
        `write \`uses: ${part.name.value}\` in a stage, or remove it`,
      );
}
