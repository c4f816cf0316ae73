/** What a spec says and no stage asks for. */
import { hasAgent } from './compile-skill.ts';
import type { Problems } from './problems.ts';
import type { Spec, StageSpec } from './spec.ts';
import { quote } from './tree.ts';

/** What the spec says and no stage asks for, or none of this build's VMs has. */
export function warnOfUnused(spec: Spec, problems: Problems): void {
  // Of a stage that could not be read nobody knows what it is.
  const { written, hasMore } = spec.lostNames;
  if (written.size > 0 || hasMore) return;
  const isAnswered = (stage: StageSpec): boolean => hasAgent(stage) || stage.agent !== null || stage.isShell;
  if (spec.llm !== null && !spec.stages.some(isAnswered))
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
