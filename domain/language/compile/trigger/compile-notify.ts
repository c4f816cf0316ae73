/** Compiles `notify`, `late_after` and `waiting_after` of a spec. */
import {
  CLOUDEVENTS_DEFAULTS,
  findUrlProblem,
  type Notify,
  NOTIFY_DEFAULTS,
  NOTIFY_LIMITS,
  NOTIFY_STATES,
  type NotifyState,
  type NotifyTarget,
  type Receiver,
} from '../../../notification/notify.ts';
import { quote } from '../../../units/quote.ts';
import type { Spec } from '../../read/spec.ts';
import type { Problems } from '../../text/diagnostics.ts';
import type { Located } from '../../text/tree.ts';

type ReceiverSpec = Spec['notify'][number];

/** Returns the receivers without mistakes; the others are reported. */
export function compileNotify(
  spec: Pick<Spec, 'notify' | 'lateAfterMs' | 'waitingAfterMs'>,
  problems: Problems,
): Notify {
  const over = spec.notify[NOTIFY_LIMITS.receivers];
  if (over !== undefined)
    problems.error(
      'spec/too-large',
      over.at,
      `\`notify\` has ${spec.notify.length} receivers; at most ${NOTIFY_LIMITS.receivers} are allowed`,
      'let one receiver forward its messages',
    );
  const receivers = spec.notify.slice(0, NOTIFY_LIMITS.receivers);
  checkNames(receivers, problems);
  return {
    receivers: receivers.flatMap((receiver) => compileReceiver(receiver, problems) ?? []),
    lateAfterMs: spec.lateAfterMs ?? NOTIFY_DEFAULTS.lateAfterMs,
    waitingAfterMs: spec.waitingAfterMs ?? NOTIFY_DEFAULTS.waitingAfterMs,
  };
}

function checkNames(receivers: readonly ReceiverSpec[], problems: Problems): void {
  const seen = new Set<string>();
  for (const { name } of receivers) {
    if (seen.has(name.value))
      problems.error(
        'spec/duplicate-name',
        name.at,
        `two receivers have the name ${quote(name.value)}`,
        'rename one of them',
      );
    seen.add(name.value);
  }
}

function compileReceiver(receiver: ReceiverSpec, problems: Problems): Receiver | null {
  const what = `receiver ${quote(receiver.name.value)}`;
  const states = (receiver.states ?? []).flatMap((state) => compileState(state, what, problems) ?? []);
  const target = compileTarget(receiver, what, problems);
  return target === null
    ? null
    : { name: receiver.name.value, states: [...new Set(states)], as: receiver.as?.value ?? null, target };
}

function compileState({ value, at }: Located<string>, what: string, problems: Problems): NotifyState | null {
  const found = NOTIFY_STATES.find((state) => state === value);
  if (found !== undefined) return found;
  problems.error(
    'spec/bad-value',
    at,
    `\`states\` of ${what} has ${quote(value)}, which is not a state${problems.suggest(value, NOTIFY_STATES)}`,
    `write one of: ${NOTIFY_STATES.join(', ')}`,
  );
  return null;
}

function compileTarget(
  { webhook, slack, cloudevents }: ReceiverSpec,
  what: string,
  problems: Problems,
): NotifyTarget | null {
  if (webhook !== null) {
    const { url, secret } = webhook;
    return checkUrl(url, what, problems) ? { kind: 'webhook', url: url.value, secret: secret.value } : null;
  }
  if (slack !== null) return { kind: 'slack', secret: slack.secret.value };
  if (cloudevents === null) return null;
  const { url, token, mode } = cloudevents;
  if (!checkUrl(url, what, problems)) return null;
  const target = { kind: 'cloudevents', url: url.value, token: token?.value ?? null } as const;
  // Versions of earlier builds have no mode, and stay equal.
  return mode === null || mode.value === CLOUDEVENTS_DEFAULTS.mode ? target : { ...target, mode: mode.value };
}

function checkUrl({ value, at }: Located<string>, what: string, problems: Problems): boolean {
  // The reader has already reported an empty text.
  if (value === '') return false;
  const problem = findUrlProblem(value);
  if (problem === null) return true;
  problems.error(
    'spec/bad-value',
    at,
    `\`url\` of ${what} is ${quote(value)}: ${problem}`,
    'write a URL such as https://ops.example/hooks; a URL that is a secret belongs to `slack`, and a login to `token`',
  );
  return false;
}
