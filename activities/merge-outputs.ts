import { Buffer } from 'node:buffer';
import { CodedError } from '../domain/errors/coded-error.ts';
import type { NamedOutput } from '../domain/pipeline/state.ts';
import type { DataRef } from '../domain/plan/plan.ts';
import type { ArtifactStore } from './ports/artifacts.ts';

/** An output in a merge is held in memory to see whether it is JSON. */
const MERGED_OUTPUT_BYTES = 64 * 1024 * 1024;

/**
 * `[{"name","output"}]` in the order of `parts`, as an artifact. An output that is JSON stands as it is, any
 * other as a string. It is assembled as a stream; only one part is in memory at a time. The same parts give
 * the same artifact.
 * @throws CodedError `run/too-large` when a part has more than 64 MiB
 */
export async function mergeOutputs(artifacts: ArtifactStore, parts: readonly NamedOutput[]): Promise<DataRef> {
  async function* pieces(): AsyncIterable<Uint8Array> {
    for (const [index, { name, output }] of parts.entries()) {
      const text = await readText(artifacts, output, name);
      yield Buffer.from(
        `${index === 0 ? '[' : ','}{"name":${JSON.stringify(name)},"output":${isJson(text) ? text : JSON.stringify(text)}}`,
      );
    }
    yield Buffer.from(']');
  }
  return artifacts.put(pieces(), 'application/json');
}

async function readText(artifacts: ArtifactStore, ref: DataRef, stage: string): Promise<string> {
  if (ref.sizeBytes > MERGED_OUTPUT_BYTES) {
    throw new CodedError(
      'run/too-large',
      `the output of ${stage} has ${ref.sizeBytes} bytes, a merge takes ${MERGED_OUTPUT_BYTES} of each: pass it as a file by \`outputs\` and \`inputs\``,
    );
  }
  const chunks: Uint8Array[] = [];
  for await (const chunk of artifacts.open(ref)) chunks.push(chunk);
  return Buffer.concat(chunks).toString('utf8');
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
