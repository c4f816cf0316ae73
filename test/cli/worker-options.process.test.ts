/** Options that `voidbox worker` refuses before it asks a server for anything. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { typeCommand } from '../rig/runs/typed-command.ts';

let dir: string;
beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), 'voidbox-worker-'));
});
afterAll(() => rmSync(dir, { recursive: true, force: true }));

/** A place with `*` allows nothing, because services are compared as they are written. */
test.each([
  ['*', ': `*` is not a pattern'],
  ['*:5432', ': `*` is not a pattern'],
  ['127.0.0.1', ''],
  ['127.0.0.1:0', ''],
  ['10.0.0.0/8:80', ''],
])('`worker --allow-services %s` is refused with its remedy', async (service, more) => {
  const variables = { VOIDBOX_STATE_DIR: join(dir, 'state'), TEMPORAL_ADDRESS: '127.0.0.1:1' };
  const line = ['worker', '--allow-services', '127.0.0.1:5432', service];
  const { code, stderr } = await typeCommand(line, dir, variables);
  expect([code, stderr]).toEqual([
    2,
    `error: --allow-services: \`${service}\` is not HOST:PORT${more}\n` +
      '  Write each service as specs name it: --allow-services 127.0.0.1:5432\n',
  ]);
});

test.each([
  ['base:512x1', 'it has not the form IMAGE[+LAYER]:MEMORYxVCPUS=COUNT'],
  ['base:512x1=17', 'the number of VMs is 17, which is not 1 to 16'],
  ['alpine:512x1=1', 'the image is neither base nor dev'],
])('`worker --warm %s` is refused with its remedy', async (shape, problem) => {
  const variables = { VOIDBOX_STATE_DIR: join(dir, 'state'), TEMPORAL_ADDRESS: '127.0.0.1:1' };
  const { code, stderr } = await typeCommand(['worker', '--warm', shape], dir, variables);
  expect([code, stderr]).toEqual([
    2,
    `error: --warm: \`${shape}\`: ${problem}\n` +
      '  Write each shape with its count: --warm base:512x1=2 dev+claude:1024x2=1\n',
  ]);
});
