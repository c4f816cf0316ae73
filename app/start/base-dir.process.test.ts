/** The folder in which relative paths of a spec start. */
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { typeCommand } from '../../test/rig/runs/typed-command.ts';

let dir: string;
beforeAll(() => {
  dir = realpathSync(mkdtempSync(join(tmpdir(), 'voidbox-base-dir-')));
  for (const folder of ['specs', 'data', 'image']) mkdirSync(join(dir, folder));
  writeFileSync(join(dir, 'note.md'), 'Be short.\n');
  writeFileSync(join(dir, 'part.yaml'), 'kind: workflow\nname: p\nworkflow: { steps: [{ name: s, run: ls }] }\n');
  const steps = (step: string, more = ''): string => `kind: workflow\nname: x\n${more}workflow: { steps: [${step}] }\n`;
  const specs = {
    mount: steps('{ name: a, run: ls }', 'sandbox: { mounts: [{ host: ./data, guest: /data }] }\n'),
    skill: 'kind: agent\nname: x\nagent: { prompt: Hello, skills: ["file:note.md"] }\n',
    uses: steps('{ name: a, uses: ./part.yaml }'),
    image: steps('{ name: a, run: ls }', 'sandbox: { image: ./image.tar }\n'),
  };
  for (const [name, text] of Object.entries(specs)) writeFileSync(join(dir, 'specs', `${name}.yaml`), text);
  writeFileSync(join(dir, 'image.tar'), 'no image');
});
afterAll(() => rmSync(dir, { recursive: true, force: true }));

const type = (...args: readonly string[]) => typeCommand(args, dir, { VOIDBOX_STATE_DIR: join(dir, 'state') });

test.each([
  ['mount', 'data'],
  ['skill', 'note.md'],
  ['uses', 'part.yaml'],
  ['image', 'image.tar'],
])('%s: a path that exists only below the working folder is named with --base-dir', async (name, file) => {
  const { stderr } = await type('validate', `specs/${name}.yaml`);
  expect(stderr.replaceAll(/\s+/g, ' ')).toContain(`it is only below the working directory: ${join(dir, file)}`);
  expect(stderr.replaceAll(/\s+/g, ' ')).toContain(`resolve relative paths from the working folder: --base-dir ${dir}`);
});

test.each(['mount', 'skill', 'uses'])('`validate --base-dir` finds the path of %s', async (name) => {
  const { code, stderr } = await type('validate', `specs/${name}.yaml`, '--base-dir', '.');
  expect({ code, stderr }).toMatchObject({ code: 0, stderr: expect.not.stringContaining('only below') });
  expect(stderr).not.toContain(dir);
});

test('`inspect --base-dir` and `run --base-dir` start paths there', async () => {
  const plan = await type('inspect', 'specs/mount.yaml', '--base-dir', '.', '--json');
  expect(plan.stdout).toContain(JSON.stringify(join(dir, 'data')));
  const { code, stderr } = await type('run', 'specs/skill.yaml', '--base-dir', 'data', '--mock-agents');
  expect({ code, stderr }).toMatchObject({ code: 2, stderr: expect.stringContaining(join(dir, 'data/note.md')) });
});

test.each([
  ['nowhere', 'does not exist'],
  ['note.md', 'is not a folder'],
])('--base-dir %s is refused', async (folder, why) => {
  const { code, stderr } = await type('validate', 'specs/mount.yaml', '--base-dir', folder);
  expect({ code, stderr }).toMatchObject({ code: 2, stderr: expect.stringContaining(why) });
});
