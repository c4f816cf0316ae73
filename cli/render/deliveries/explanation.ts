/** The text of an explanation: one line for each step of the decision. A sender decides the values. */
import type { ExplainedEvent, Explanation } from '../../../app/deliveries/explain-delivery.ts';
import type { Evaluation } from '../../../domain/delivery/decision.ts';
import { sanitizeLine } from '../../../domain/security/sanitize.ts';
import { formatDurationMs } from '../../../domain/units/duration.ts';
import { cutText } from '../../../domain/units/cut-text.ts';

type Step = readonly [name: string, text: string];

export function renderExplanation({ deployment, version, trigger, events, rules }: Explanation): readonly string[] {
  const steps: readonly Step[] = [
    ['trigger', `${trigger} of ${deployment}, version ${version}`],
    ...events.flatMap((event) => describeEvent(event, rules)),
    ...(events.length === 0 ? [['decision', 'none: the batch has no event'] as const] : []),
  ];
  return steps.map(([name, text]) => `${name.padEnd(9)}  ${sanitizeLine(text)}`);
}

function describeEvent(event: ExplainedEvent, rules: Explanation['rules']): readonly Step[] {
  const { cloudEvent, evaluation, problem } = event;
  return [
    ...(cloudEvent === null ? [] : [['event', `${cloudEvent.id} of ${cloudEvent.source}`] as const]),
    ...(evaluation === null ? [] : describeSteps(rules, evaluation)),
    ['decision', problem === null ? describeDecision(event) : `refused: ${problem.code}: ${problem.message}`],
  ];
}

function describeSteps(
  { when, dedupe, debounce, batch, rate, order }: Explanation['rules'],
  { holds, params, input, keys }: Evaluation,
): readonly Step[] {
  const withKey = (key: string | null): string =>
    key === null || key === '' ? '' : ` for the key ${JSON.stringify(key)}`;
  return [
    ['when', when === null ? 'each delivery starts a run' : `${when} is ${holds}`],
    ...Object.entries(params).map(([name, text]): Step => ['param', `${name} = ${JSON.stringify(cutText(text))}`]),
    ['input', input === null ? 'the payload as it is received' : JSON.stringify(cutText(input))],
    ['dedupe', `one run${withKey(keys.dedupe)} within ${formatDurationMs(dedupe.forMs)}`],
    ...(debounce === null
      ? []
      : [
          [
            'debounce',
            `the ${debounce.take} delivery${withKey(keys.debounce)}, after ${formatDurationMs(debounce.delayMs)} without another one, at most ${formatDurationMs(debounce.maxDelayMs)}`,
          ] as const,
        ]),
    ...(batch === null
      ? []
      : [
          [
            'batch',
            `one run for ${batch.size} deliveries${withKey(keys.batch)}, or after ${formatDurationMs(batch.timeoutMs)}`,
          ] as const,
        ]),
    ...(rate === null
      ? []
      : [
          [
            'rate',
            `${rate.limit} runs${withKey(keys.rate)} within ${formatDurationMs(rate.perMs)}; others are ${rate.onLimit === 'hold' ? 'held' : 'dropped'}`,
          ] as const,
        ]),
    ...(order === null ? [] : [['order', `in the order of acceptance${withKey(keys.order)}`] as const]),
  ];
}

function describeDecision({ decision }: ExplainedEvent): string {
  if (decision === null) return 'none';
  const { kind, hold, waitMs, code, message } = decision;
  if (kind === 'start') return 'starts a run now';
  if (kind === 'hold') return `held for ${hold ?? ''}: the service looks again after ${formatDurationMs(waitMs ?? 0)}`;
  return `${kind === 'filter' ? 'filtered' : kind}: ${code ?? ''}: ${message ?? ''}`;
}
