/**
 * The changes that redaction makes in the data of a stage. They are detected when the data is stored, and named if a
 * stage fails because of them.
 */
import { Buffer } from 'node:buffer';
import { type DataRef, REDACTED_LIMITS, type RedactedData } from '../../domain/plan/plan.ts';
import { EVENT_ID } from '../../domain/run/event-id.ts';
import { formatStageName } from '../../domain/run/instance.ts';
import type { StageFailure, StageResult } from '../../domain/run/stage-result.ts';
import type { Redactor } from '../../domain/security/redactor.ts';
import { sanitizeLine } from '../../domain/security/sanitize.ts';
import { isJson } from '../../domain/units/is-json.ts';
import { describeRedacted } from '../../domain/security/not-json.ts';
import { valueAt } from '../../domain/units/mapping.ts';
import type { ActivityDeps } from '../deps.ts';
import type { StageRequest } from '../calls/requests.ts';

export interface RedactedSource {
  readonly bytes: AsyncIterable<Uint8Array>;
  /** Returns the changes after the last of the bytes was read; null: no change. */
  changes(): RedactedData | null;
}

/** Redacts a stream of bytes. */
export function redactSource(source: AsyncIterable<Uint8Array>, redactor: Redactor): RedactedSource {
  const stream = redactor.stream();
  const json = createJsonHolder();
  async function* bytes(): AsyncIterable<Uint8Array> {
    for await (const chunk of source) {
      json.add(chunk);
      for (const piece of stream.push(chunk)) yield piece.bytes;
    }
    for (const piece of stream.flush()) yield piece.bytes;
  }
  return { bytes: bytes(), changes: () => changesOf(stream.counts(), json.held(), redactor) };
}

/** Redacts a text in the same way. */
export function redactWhole(
  text: string,
  redactor: Redactor,
): { readonly text: string; readonly changes: RedactedData | null } {
  const redacted = redactor.text(text);
  if (redacted === text) return { text, changes: null };
  const stream = redactor.stream();
  const bytes = Buffer.from(text);
  const json = createJsonHolder();
  json.add(bytes);
  stream.push(bytes);
  stream.flush();
  return { text: redacted, changes: changesOf(stream.counts(), json.held(), redactor) };
}

/** Returns the ref with the changes that redaction made in its data. */
export function withChanges(ref: DataRef, ...changes: readonly (RedactedData | null | undefined)[]): DataRef {
  const known = changes.filter((each): each is RedactedData => each !== null && each !== undefined);
  if (known.length === 0) return ref;
  const variables = [...new Set(known.flatMap((each) => each.variables))].slice(0, REDACTED_LIMITS.variables);
  return { ...ref, redacted: { variables, breaksJson: known.some(({ breaksJson }) => breaksJson) } };
}

/** Holds bytes that may be a JSON list or mapping, up to a size limit. */
function createJsonHolder(): { add(chunk: Uint8Array): void; held(): Buffer | null } {
  let chunks: Buffer[] | null = [];
  let bytes = 0;
  let hasBegun = false;
  return {
    add(chunk) {
      if (chunks === null) return;
      if (!hasBegun) {
        const first = chunk.find((byte) => !BLANKS.has(byte));
        if (first === undefined) return;
        hasBegun = true;
        if (first !== OPENING_BRACE && first !== OPENING_BRACKET) return void (chunks = null);
      }
      bytes += chunk.length;
      if (bytes > REDACTED_LIMITS.jsonBytes) return void (chunks = null);
      // Copy the chunk, because the reader reuses its buffer after the call.
      chunks.push(Buffer.from(chunk));
    },
    held: () => (chunks === null ? null : Buffer.concat(chunks)),
  };
}

const BLANKS: ReadonlySet<number> = new Set([0x20, 0x09, 0x0a, 0x0d]);
const OPENING_BRACE = 0x7b;
const OPENING_BRACKET = 0x5b;

function changesOf(counts: ReadonlyMap<string, number>, held: Buffer | null, redactor: Redactor): RedactedData | null {
  if (counts.size === 0) return null;
  const names = [...counts.keys()].slice(0, REDACTED_LIMITS.variables);
  return {
    variables: names.map((name) => name.slice(0, REDACTED_LIMITS.nameCharacters)),
    breaksJson: held !== null && isJson(held.toString('utf8')) && !isJson(redactText(held, redactor)),
  };
}

/** Redacts bytes in the same way as they are stored: for a text of UTF-16 units the redactor uses other patterns. */
function redactText(bytes: Buffer, redactor: Redactor): string {
  const stream = redactor.stream();
  const pieces = [...stream.push(bytes), ...stream.flush()];
  return Buffer.concat(pieces.map((piece) => piece.bytes)).toString('utf8');
}

interface NoticeContext {
  readonly deps: Pick<ActivityDeps, 'events' | 'now'>;
  readonly request: StageRequest;
}

/** Tells the author of a stage that redaction changed its output; once per stage. */
export async function recordOutputRedaction(
  { deps, request }: NoticeContext,
  output: Pick<DataRef, 'redacted'> | null,
): Promise<void> {
  const redacted = output?.redacted;
  if (redacted === undefined) return;
  const named = describeRedacted(redacted.variables);
  const end = redacted.breaksJson ? ', so it is no longer JSON: print such a value within a string' : '';
  const { stage, instance, runId } = request;
  const message = sanitizeLine(
    `the output of stage ${formatStageName(stage.id, instance)} was changed: ${named}${end}`,
  );
  const level = redacted.breaksJson ? 'warning' : 'info';
  const id = EVENT_ID.outputRedacted(stage.id, redacted.breaksJson);
  await deps.events.append(runId, [{ id, atMs: deps.now(), body: { type: 'notice', level, message } }]);
}

/** Returns a failure if redaction broke the JSON of the stage's standard input; otherwise null. */
export function findBrokenStdin({
  stage,
  upstream,
  instance,
}: StageRequest): Pick<StageFailure, 'code' | 'message'> | null {
  const { work } = stage;
  if (work.kind !== 'command' || work.stdin.kind === 'none') return null;
  const source = work.stdin.stage;
  const redacted = valueAt(upstream, source)?.output?.redacted;
  if (redacted?.breaksJson !== true) return null;
  const message = `stage ${formatStageName(stage.id, instance)} uses the output of stage ${source} with \`stdin_from\`, which is no longer JSON: ${describeRedacted(redacted.variables)}. Let ${source} print such a value within a string`;
  return { code: 'stage/input-redacted', message: sanitizeLine(message) };
}

const MAY_HAVE_READ: ReadonlySet<string> = new Set([
  'stage/exit-nonzero',
  'stage/output-schema',
  'stage/output-missing',
]);

/** Adds to a failure the variables that redaction removed from the stage's inputs. */
export function namingRedactedInputs({ stage, upstream }: StageRequest, result: StageResult): StageResult {
  const { failure } = result;
  if (result.outcome !== 'failed' || failure === null || !MAY_HAVE_READ.has(failure.code)) return result;
  const { work, input, again = [], texts } = stage;
  const sources = [
    ...(work.kind === 'command' && work.stdin.kind !== 'none' ? [work.stdin.stage] : []),
    ...(input.kind === 'carry' ? [input.stage] : input.kind === 'merge' ? input.stages : []),
    ...again,
    ...(texts?.stages ?? []),
  ];
  const named = [...new Set(sources)].flatMap((source) => {
    const variables = valueAt(upstream, source)?.output?.redacted?.variables ?? [];
    return variables.length === 0
      ? []
      : [`in the output of stage ${source}, which it takes, ${describeRedacted(variables)}`];
  });
  if (named.length === 0) return result;
  return {
    ...result,
    failure: { ...failure, message: `${failure.message}; ${sanitizeLine(named.slice(0, 4).join('; '))}` },
  };
}
