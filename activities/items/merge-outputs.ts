import { Buffer } from 'node:buffer';
import { CodedError } from '../../domain/errors/coded-error.ts';
import type { NamedOutput } from '../../domain/pipeline/state.ts';
import type { DataRef, RedactedData } from '../../domain/plan/plan.ts';
import { isJson } from '../../domain/units/is-json.ts';
import type { ArtifactStore } from '../ports/artifacts.ts';
import { withChanges } from '../attempt/redacted-data.ts';

/** The size limit of an output in a merge, because it is held in memory to check whether it is JSON. */
const MERGED_OUTPUT_BYTES = 64 * 1024 * 1024;

/**
 * Stores `[{"name","output"}]` in the order of `parts` as an artifact. An output that is JSON is inserted unchanged,
 * any other output as a string. The artifact is streamed, so only one part at a time is in memory. The same parts give
 * the same artifact.
 * @throws CodedError `run/too-large` if a part has more than 64 MiB
 */
export async function mergeOutputs(artifacts: ArtifactStore, parts: readonly NamedOutput[]): Promise<DataRef> {
  async function* pieces(): AsyncIterable<Uint8Array> {
    // A fan-out in which every failure was tolerated has no parts.
    if (parts.length === 0) yield Buffer.from('[');
    for (const [index, { name, output }] of parts.entries()) {
      const text = await readText(artifacts, output, name);
      yield Buffer.from(
        `${index === 0 ? '[' : ','}{"name":${JSON.stringify(name)},"output":${isJson(text) ? text : JSON.stringify(text)}}`,
      );
    }
    yield Buffer.from(']');
  }
  return withChanges(
    await artifacts.put(pieces(), 'application/json'),
    ...parts.map(({ output }) => changesIn(output)),
  );
}

/** The merge stays valid JSON, because it contains a part that is not JSON as a string. */
function changesIn({ redacted }: DataRef): RedactedData | null {
  return redacted === undefined ? null : { ...redacted, breaksJson: false };
}

/** The result of an item of a stage. `item` is JSON. */
export type MergedItem =
  | { readonly item: string; readonly output: DataRef | null }
  | { readonly item: string; readonly failure: { readonly code: string; readonly message: string } };

/**
 * Stores `[{"item","output"}]` in the order of the items, with a `failure` instead of the output for items that failed.
 * Otherwise works like `mergeOutputs`.
 * @throws CodedError `run/too-large` if an output has more than 64 MiB
 */
export async function mergeItems(artifacts: ArtifactStore, items: readonly MergedItem[]): Promise<DataRef> {
  async function* pieces(): AsyncIterable<Uint8Array> {
    yield Buffer.from('[');
    for (const [index, part] of items.entries()) {
      const before = index === 0 ? '' : ',';
      if ('failure' in part) {
        yield Buffer.from(`${before}{"item":${part.item},"failure":${JSON.stringify(part.failure)}}`);
        continue;
      }
      const text = part.output === null ? '' : await readText(artifacts, part.output, `item ${index}`);
      yield Buffer.from(`${before}{"item":${part.item},"output":${isJson(text) ? text : JSON.stringify(text)}}`);
    }
    yield Buffer.from(']');
  }
  const outputs = items.flatMap((part) => ('output' in part && part.output !== null ? [part.output] : []));
  return withChanges(await artifacts.put(pieces(), 'application/json'), ...outputs.map(changesIn));
}

async function readText(artifacts: ArtifactStore, ref: DataRef, stage: string): Promise<string> {
  if (ref.sizeBytes > MERGED_OUTPUT_BYTES) {
    throw new CodedError(
      'run/too-large',
      `the output of ${stage} has ${ref.sizeBytes} bytes; a merge takes at most ${MERGED_OUTPUT_BYTES} of each: pass it as a file with \`outputs\` and \`inputs\``,
    );
  }
  // Items without output are common, and opening a file for each of thousands of items would dominate the time of a
  // merge.
  if (ref.sizeBytes === 0) return '';
  const chunks: Uint8Array[] = [];
  for await (const chunk of artifacts.open(ref)) chunks.push(chunk);
  return Buffer.concat(chunks).toString('utf8');
}
