/** Commands on specs that use other specs: their messages about a part, and the places in these. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { typeCommand } from '../rig/runs/typed-command.ts';

const USING = (file: string): string =>
  `kind: workflow\nname: main\nworkflow:\n  steps:\n    - { name: review, uses: ${file} }\n`;

let dir: string;
beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), 'voidbox-parts-'));
  mkdirSync(join(dir, 'shared/data'), { recursive: true });
  writeFileSync(join(dir, 'main.yaml'), USING('./shared/review.yaml'));
  writeFileSync(
    join(dir, 'shared/review.yaml'),
    'kind: pipeline\nname: review\nsandbox: { mounts: [{ host: data, guest: /data }] }\npipeline:\n  boxes:\n    - { name: lint, run: { program: lint } }\n',
  );
  writeFileSync(join(dir, 'bad.yaml'), USING('./shared/broken.yaml'));
  writeFileSync(
    join(dir, 'shared/broken.yaml'),
    'kind: pipeline\nname: broken\npipeline:\n  boxes:\n    - { name: lint, run: { program: lint, stdin_from: nobody } }\n',
  );
  writeFileSync(join(dir, 'gone.yaml'), USING('./shared/gone.yaml'));
});
afterAll(() => rmSync(dir, { recursive: true, force: true }));

const type = (...args: readonly string[]) => typeCommand(args, dir, { VOIDBOX_STATE_DIR: join(dir, 'state') });

test('`inspect` shows the stages of a part, its own folder, and what ends it', async () => {
  const { code, stdout } = await type('inspect', 'main.yaml');
  expect({ code, stdout }).toEqual({
    code: 0,
    stdout: `workflow main

part review: ./shared/review.yaml

  VM (microvm), 512 MiB, 1 vCPU, ${join(dir, 'shared/data')} at /data (ro), no network
    review.lint  lint

  without a VM
    review       ends the part ./shared/review.yaml · after review.lint

result: the output of review
`,
  });
});

test('`validate` names the file of a part in which a mistake is, and shows its line', async () => {
  const { code, stderr, stdout } = await type('validate', 'bad.yaml');
  const told = `${stdout}${stderr}`;
  expect(code).not.toBe(0);
  expect(told).toMatch(/shared\/broken\.yaml:5:\d+: error\[spec\/unknown-box\]/);
  expect(told).toContain('stdin_from: nobody');
});

test('`validate` reports a missing file at the place in the spec that names it', async () => {
  const { code, stderr, stdout } = await type('validate', 'gone.yaml');
  expect(code).not.toBe(0);
  expect(`${stdout}${stderr}`).toMatch(
    /gone\.yaml:5:\d+: error\[spec\/bad-part\]: .*"\.\/shared\/gone\.yaml", which cannot be read: there is no such file/,
  );
});
