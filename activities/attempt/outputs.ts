/** Collects the results of a successful command: its output and its named outputs. */
import { Buffer, isUtf8 } from 'node:buffer';
import { unfenceJson } from '../../agents/fenced-json.ts';
import { isCodedError } from '../../domain/errors/coded-error.ts';
import type { ErrorCode } from '../../domain/errors/codes.ts';
import type { DataRef, RedactedData, StagePlan } from '../../domain/plan/plan.ts';
import { OUTPUT_SCHEMA_LIMITS } from '../../domain/language/schema/output-schema.ts';
import type { Redactor } from '../../domain/security/redactor.ts';
import type { ArtifactStore } from '../ports/artifacts.ts';
import type { Exec, Sandbox } from '../ports/sandbox.ts';
import { redactSource, withChanges } from './redacted-data.ts';
import { createMapping } from '../../domain/units/mapping.ts';

export interface OutcomeFailure {
  readonly code: ErrorCode;
  readonly message: string;
}

export type CollectedOutputs =
  | { readonly failure: OutcomeFailure }
  | { readonly failure: null; readonly output: DataRef; readonly outputs: Readonly<Record<string, DataRef>> };

/** The last message of an agent, which is the output if the agent wrote no file. */
export interface LastMessage {
  /** The last message; null: the agent gave no message. */
  readonly said: Uint8Array | null;
  /** True if a missing file is a failure. */
  readonly fileIsExpected: boolean;
  /** True if the message is JSON even if the stage has no schema. */
  readonly isJson?: boolean;
  /** The changes that redaction already made in the message; absent: no change. */
  readonly redacted?: RedactedData;
}

/**
 * Collects the outputs. Everything is durable in the artifact store when the promise resolves.
 * @param exec null if no command ran; then `agent` must be set
 * @param agent absent if the work is a command; its standard output is the output unless the plan names a file
 */
export async function collectOutputs(
  artifacts: ArtifactStore,
  sandbox: Sandbox,
  exec: Exec | null,
  stage: StagePlan,
  redactor: Redactor,
  signal: AbortSignal,
  agent?: LastMessage,
): Promise<CollectedOutputs> {
  const outputs: Record<string, DataRef> = createMapping();
  for (const { name, guestPath } of stage.outputs) {
    const named = `an output ${name}`;
    const tar = await hostileChecked(stage, named, () => sandbox.getTar(guestPath, signal));
    if ('failure' in tar) return tar;
    if (tar.value === null) return createMissingOutput(stage, `the output ${name}`, guestPath);
    const stream = tar.value;
    const ref = await hostileChecked(stage, named, () => artifacts.put(stream, 'application/x-tar'));
    if ('failure' in ref) return ref;
    outputs[name] = ref.value;
  }
  const found = await hostileChecked(stage, 'its output file', async () =>
    stage.outputFile === null ? null : await sandbox.readFile(stage.outputFile, signal),
  );
  if ('failure' in found) return found;
  const file = found.value?.bytes ?? null;
  if (file === null && agent !== undefined) return await storeLastMessage(artifacts, stage, redactor, agent, outputs);
  if (file === null && stage.outputFile !== null)
    return createMissingOutput(stage, 'its output file', stage.outputFile);
  if (file === null && exec === null) throw new Error(`stage ${stage.id} ran no command`);
  const source = redactSource(file ?? exec!.output('stdout', 0, signal), redactor);
  const answer = agent !== undefined && stage.outputSchema !== undefined ? withoutFence(source.bytes) : source.bytes;
  const output = withChanges(await artifacts.put(answer, mediaTypeOf(stage.outputFile)), source.changes());
  return { failure: null, output, outputs };
}

export function mediaTypeOf(outputFile: string | null): string {
  return outputFile?.endsWith('.json') === true ? 'application/json' : 'application/octet-stream';
}

async function storeLastMessage(
  artifacts: ArtifactStore,
  stage: StagePlan,
  redactor: Redactor,
  { said, fileIsExpected, isJson = stage.outputSchema !== undefined, redacted }: LastMessage,
  outputs: Readonly<Record<string, DataRef>>,
): Promise<CollectedOutputs> {
  if (fileIsExpected) return createMissingOutput(stage, 'its output file', stage.outputFile ?? '');
  if (said === null)
    return {
      failure: { code: 'agent/no-output', message: `the agent of stage ${stage.id} ended without an answer` },
    };
  async function* whole(): AsyncIterable<Uint8Array> {
    yield said!;
  }
  const mediaType = isJson ? 'application/json' : 'application/octet-stream';
  const answer = redactSource(whole(), redactor);
  const stored = await artifacts.put(isJson ? withoutFence(answer.bytes) : answer.bytes, mediaType);
  const output = withChanges(stored, redacted, answer.changes());
  return { failure: null, output, outputs };
}

/** Unwraps an answer that is one fenced block around JSON. An answer that is too large for a schema stays unchanged. */
async function* withoutFence(source: AsyncIterable<Uint8Array>): AsyncIterable<Uint8Array> {
  const { outputBytes } = OUTPUT_SCHEMA_LIMITS;
  const held: Uint8Array[] = [];
  let heldBytes = 0;
  for await (const chunk of source) {
    heldBytes += chunk.byteLength;
    held.push(chunk);
    if (heldBytes > outputBytes) yield* held.splice(0);
  }
  if (heldBytes > outputBytes) return;
  const whole = Buffer.concat(held);
  const json = isUtf8(whole) ? unfenceJson(whole.toString('utf8')) : null;
  yield json === null ? whole : Buffer.from(json);
}

function createMissingOutput(stage: StagePlan, what: string, guestPath: string): CollectedOutputs {
  return {
    failure: {
      code: 'stage/output-missing',
      message: `stage ${stage.id} did not leave ${what} at ${guestPath}, though its command succeeded`,
    },
  };
}

/** Converts a rejected entry into a failure of the stage, because the guest itself left the entry. */
async function hostileChecked<T>(
  stage: StagePlan,
  what: string,
  work: () => Promise<T>,
): Promise<{ readonly value: T } | { readonly failure: OutcomeFailure }> {
  try {
    return { value: await work() };
  } catch (error) {
    if (isCodedError(error) && error.code === 'stage/bad-output')
      return {
        failure: {
          code: 'stage/bad-output',
          message: `stage ${stage.id} left ${what} that is refused: ${error.message}`,
        },
      };
    throw error;
  }
}
