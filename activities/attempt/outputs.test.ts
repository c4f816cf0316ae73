import { expect, test } from 'vitest';
import { CodedError } from '../../domain/errors/coded-error.ts';
import { createRedactor } from '../../domain/security/redactor.ts';
import { plainStage } from '../../test/rig/runs/mock-worker.ts';
import type { ArtifactStore } from '../ports/artifacts.ts';
import type { Exec, Sandbox } from '../ports/sandbox.ts';
import { collectOutputs } from './outputs.ts';

const STAGE = plainStage('build', 'build', ['make'], { outputs: [{ name: 'tables', guestPath: '/workspace/t' }] });
const REFUSED = new CodedError('stage/bad-output', '/workspace/t may not leave its VM: deep/pipe: a Fifo');

async function* cutOff(): AsyncGenerator<Uint8Array> {
  yield new Uint8Array(1);
  throw REFUSED;
}

test.each([
  ['before its first byte', () => Promise.reject(REFUSED)],
  ['on its way', () => Promise.resolve(cutOff())],
])('an output that is refused %s is named in the failure, with the entry and the reason', async (_, getTar) => {
  const sandbox = { getTar } as unknown as Sandbox;
  const artifacts = {
    put: async (bytes: AsyncIterable<Uint8Array>) => {
      for await (const _chunk of bytes);
    },
  } as unknown as ArtifactStore;
  const { signal } = new AbortController();
  expect(await collectOutputs(artifacts, sandbox, {} as Exec, STAGE, createRedactor([]), signal)).toEqual({
    failure: {
      code: 'stage/bad-output',
      message:
        'stage build left an output tables that is refused: /workspace/t may not leave its VM: deep/pipe: a Fifo',
    },
  });
});

test('an output file that is refused is named in the failure, with its path and the reason', async () => {
  const refused = new CodedError('stage/bad-output', '/workspace/np: Permission denied (os error 13)');
  const sandbox = { readFile: () => Promise.reject(refused) } as unknown as Sandbox;
  const stage = { ...STAGE, outputs: [], outputFile: '/workspace/np' };
  const { signal } = new AbortController();
  const collected = collectOutputs({} as ArtifactStore, sandbox, {} as Exec, stage, createRedactor([]), signal);
  expect(await collected).toEqual({
    failure: {
      code: 'stage/bad-output',
      message: 'stage build left its output file that is refused: /workspace/np: Permission denied (os error 13)',
    },
  });
});
