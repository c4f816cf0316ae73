/** The inputs of a stage's command in the guest: input.json, outputs of earlier stages, standard input. */
import { Buffer } from 'node:buffer';
import type { DataRef } from '../../domain/plan/plan.ts';
import type { InlineOrRef, UpstreamOutputs } from '../contract.ts';
import { mergeOutputs } from '../items/merge-outputs.ts';
import type { ArtifactStore } from '../ports/artifacts.ts';
import type { ExecRequest, Sandbox } from '../ports/sandbox.ts';
import type { StageRequest } from '../calls/requests.ts';
import { valueAt } from '../../domain/units/mapping.ts';

const INPUT_PATH = '/workspace/input.json';

/** Returns true if the stage needs files in the guest before its command starts. */
export function needsFiles({ stage, input }: StageRequest): boolean {
  const hasInput = stage.input.kind === 'run-input' ? input !== null : stage.input.kind !== 'none';
  return hasInput || stage.again !== undefined || stage.inputs.length > 0;
}

/** Puts the stage's files into the guest. Must not run again once the command has started. */
export async function prepareFiles(
  artifacts: ArtifactStore,
  sandbox: Sandbox,
  request: StageRequest,
  signal: AbortSignal,
): Promise<void> {
  const input = await inputFile(artifacts, request);
  if (input !== null) await sandbox.writeFile(INPUT_PATH, input.sizeBytes, input.bytes, signal);
  for (const { fromStage, output, guestPath, optional } of request.stage.inputs) {
    const ref = valueAt(upstreamOf(request, fromStage).outputs, output);
    if (ref === undefined && optional) continue;
    if (ref === undefined)
      throw new Error(`stage ${request.stage.id}: stage ${fromStage} has no output ${output} in its result`);
    await sandbox.putTar(guestPath, artifacts.open(ref), signal);
  }
}

export function stdinOf(artifacts: ArtifactStore, request: StageRequest): ExecRequest['stdin'] {
  const { work } = request.stage;
  if (work.kind !== 'command' || work.stdin.kind === 'none') return null;
  const { stdin } = work;
  const ref = outputOf(request, stdin.stage);
  return { sizeBytes: ref.sizeBytes, open: (offset) => artifacts.open(ref, offset) };
}

export interface InputFile {
  readonly sizeBytes: number;
  readonly bytes: AsyncIterable<Uint8Array>;
}

/** Returns the contents of the stage's `input.json`; null: the stage has no such file. */
export async function inputFile(artifacts: ArtifactStore, request: StageRequest): Promise<InputFile | null> {
  const { input, again = [] } = request.stage;
  const before = again.map((loop) => upstreamOf(request, loop).output).find((output) => output !== null);
  if (before !== undefined) return fileOf(artifacts, { kind: 'ref', ref: before });
  switch (input.kind) {
    case 'none':
      return null;
    case 'run-input':
      return request.input === null ? null : fileOf(artifacts, request.input);
    case 'carry': {
      // If no earlier box has an output, there is no file.
      const { output } = upstreamOf(request, input.stage);
      return output === null ? null : fileOf(artifacts, { kind: 'ref', ref: output });
    }
    case 'merge': {
      // A box that was passed, or whose failure is tolerated, has no output to merge.
      const parts = input.stages.flatMap((stage) => {
        const { output } = upstreamOf(request, stage);
        return output === null ? [] : [{ name: stage, output }];
      });
      return fileOf(artifacts, { kind: 'ref', ref: await mergeOutputs(artifacts, parts) });
    }
  }
}

function fileOf(artifacts: ArtifactStore, value: InlineOrRef): InputFile {
  if (value.kind === 'ref') return { sizeBytes: value.ref.sizeBytes, bytes: artifacts.open(value.ref) };
  const bytes = Buffer.from(value.text);
  return { sizeBytes: bytes.length, bytes: toStream(bytes) };
}

function upstreamOf(request: StageRequest, stage: string): UpstreamOutputs {
  const upstream = valueAt(request.upstream, stage);
  if (upstream === undefined)
    throw new Error(`stage ${request.stage.id} uses data of stage ${stage}, which it was not given`);
  return upstream;
}

function outputOf(request: StageRequest, stage: string): DataRef {
  const { output } = upstreamOf(request, stage);
  if (output === null)
    throw new Error(`stage ${request.stage.id} uses the output of stage ${stage}, which has no output`);
  return output;
}

async function* toStream(bytes: Uint8Array): AsyncIterable<Uint8Array> {
  yield bytes;
}
