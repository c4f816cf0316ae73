/** Computes the end of a wait whose time comes from earlier outputs. */
import { CodedError } from '../../domain/errors/coded-error.ts';
import { PLAN_LIMITS, type TextsPlan } from '../../domain/plan/plan.ts';
import type { InstancePath } from '../../domain/run/instance.ts';
import type { NewRunEvent } from '../../domain/run/event.ts';
import { createRedactor } from '../../domain/security/redactor.ts';
import { sanitizeLine } from '../../domain/security/sanitize.ts';
import { writeDurationMs } from '../../domain/units/duration.ts';
import { parseTimeMs } from '../../domain/units/time.ts';
import type { FoundTime } from '../contract.ts';
import type { ActivityDeps } from '../deps.ts';
import { readSecrets } from '../attempt/host-variables.ts';
import type { StageItem, StageRequest } from '../calls/requests.ts';
import { makeTexts, type TextDeps } from '../attempt/texts.ts';
import { shorten } from '../../domain/units/quote.ts';

export interface FindTimeRequest {
  readonly runId: string;
  readonly stage: string;
  readonly instance: InstancePath;
  readonly texts: TextsPlan;
  readonly upstream: StageRequest['upstream'];
  /** The item that the stage waits for; null: the run itself. */
  readonly item: StageItem | null;
  /** Names of the host variables of the run. */
  readonly hostVariables: readonly string[];
  readonly events: readonly NewRunEvent[];
}

/** The most characters of the value in a message. A time with its zone and nine digits of a second needs 35. */
const VALUE_SHOWN = 100;

type Deps = Pick<ActivityDeps, 'events' | 'now' | 'hostVariables' | 'lentVariables' | 'starters'> & TextDeps;

/** @throws CodedError `stage/expression`, `stage/wait-time` */
export async function findTime(deps: Deps, request: FindTimeRequest): Promise<FoundTime> {
  const { runId, stage, texts, upstream, item, hostVariables, events } = request;
  if (events.length > 0) await deps.events.append(runId, events);
  // The messages contain output of guests.
  const redactor = createRedactor(await readSecrets(deps, runId, hostVariables));
  const redactLine = (text: string): string => redactor.text(sanitizeLine(text));
  const made = await makeTexts(deps, texts, upstream, item);
  if ('problem' in made)
    throw new CodedError(
      'stage/expression',
      `stage ${stage} cannot tell until when it waits: ${redactLine(made.problem)}`,
    );
  const value = (made.find(({ place }) => place.kind === 'until')?.value ?? '').trim();
  const untilMs = parseTimeMs(value);
  const createRefusal = (why: string): CodedError =>
    new CodedError(
      'stage/wait-time',
      `stage ${stage} waits until ${redactLine(JSON.stringify(shorten(value, VALUE_SHOWN)))}, ${why}`,
    );
  if (untilMs === null)
    throw createRefusal('which is not a time with its offset from UTC, such as 2026-12-01T09:00:00Z');
  if (untilMs > deps.now() + PLAN_LIMITS.waitMs)
    throw createRefusal(`which is more than ${writeDurationMs(PLAN_LIMITS.waitMs)} away`);
  return { untilMs };
}
