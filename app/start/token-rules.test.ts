import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { compileText } from '../../domain/language/load.ts';
import type { Plan } from '../../domain/plan/plan.ts';
import { createConfinedMark, readConfinedStarter, refuseForStarter, settleForStarter } from './token-rules.ts';

let dir: string;
let folder: string;
beforeAll(() => {
  dir = realpathSync(mkdtempSync(join(tmpdir(), 'voidbox-token-rules-')));
  // A repository of the host is around the folder of the uploads.
  for (const name of ['.git', 'uploads/data', 'uploads/repo/.git', 'uploads/repo/sub', 'other'])
    mkdirSync(join(dir, name), { recursive: true });
  folder = join(dir, 'uploads');
  symlinkSync('../other', join(folder, 'away'));
});
afterAll(() => rmSync(dir, { recursive: true, force: true }));

function planOf(sandbox: string, step = 'run: ls'): Plan {
  const { plan, diagnostics } = compileText(
    `kind: workflow\nname: a\nsandbox: ${sandbox}\nworkflow:\n  steps:\n    - { name: a, ${step} }\n`,
    'x.yaml',
    { baseDir: folder },
  );
  if (plan === null) throw new Error(JSON.stringify(diagnostics));
  return plan;
}

const mount = (host: string, mode = 'ro'): Plan =>
  planOf(`{ mounts: [{ host: "${host}", guest: /data, mode: ${mode} }] }`);
const LIMITS = (allowGit: readonly string[] = []) => ({ folder, allowGit });

describe('a plan of a token may not', () => {
  test.each([
    ['mount a folder of the host', () => mount('/etc')],
    ['mount the root', () => mount('/')],
    ['mount a folder that does not exist', () => mount('/no/such/folder')],
    ['mount a folder above its uploads', () => mount('..')],
    ['mount a folder beside its uploads by a longer name', () => mount(`${folder}-of-another-run`)],
    ['mount an upload that it can write', () => mount('data', 'rw')],
    ['have an image of the host', () => planOf('{ image: /images/of-the-owner }')],
    ['start from a sandbox that the owner prepared', () => planOf('{ snapshot: of-the-owner }')],
    ['work in a repository of the host', () => planOf('{}', 'run: ls, workspace: { git: .. }')],
    ['fetch a repository', () => planOf('{}', 'run: ls, workspace: { git: "https://example.com/app" }')],
  ])('%s', async (_what, make) => {
    const plan = make();
    expect(() => refuseForStarter(plan, LIMITS())).toThrow(expect.objectContaining({ code: 'admit/mount-refused' }));
    await expect(settleForStarter(plan, LIMITS())).rejects.toMatchObject({ code: 'admit/mount-refused' });
  });

  test('reach a service of the host', () => {
    const plan = planOf('{ services: { db: "127.0.0.1:5432" } }');
    expect(() => refuseForStarter(plan, LIMITS())).toThrow(expect.objectContaining({ code: 'admit/service-refused' }));
  });

  test('run a step machine, or name an agent skill of the host', () => {
    const [stage] = mount('data').stages;
    const withWork = (work: unknown) => ({ ...mount('data'), stages: [{ ...stage!, work }] }) as unknown as Plan;
    const machine = { kind: 'skill', source: { kind: 'host', path: join(folder, 'skill') }, skills: [] };
    const source = { kind: 'host', path: '/home/owner/notes.md' };
    const agent = { kind: 'agent', skills: [{ kind: 'file', source }] };
    for (const work of [machine, agent])
      expect(() => refuseForStarter(withWork(work), LIMITS())).toThrow(
        expect.objectContaining({ code: 'admit/mount-refused' }),
      );
  });

  test('mount a link out of its uploads', async () => {
    refuseForStarter(mount('away'), LIMITS());
    await expect(settleForStarter(mount('away'), LIMITS())).rejects.toMatchObject({
      code: 'admit/mount-refused',
      message: expect.stringContaining('leads out of an upload of the request'),
    });
  });
});

test('a refusal is the same whether or not the path of the host exists', () => {
  const messageOf = (path: string): string => {
    try {
      refuseForStarter(mount(path), LIMITS());
    } catch (error) {
      return (error as Error).message.replace(path, 'PATH');
    }
    return 'no refusal';
  };
  expect(messageOf('/etc/passwd')).toBe(messageOf('/no/such/file'));
  expect(messageOf('/etc/passwd')).not.toBe('no refusal');
});

test('a plan of a token mounts its uploads, works in them, and fetches what the token allows', async () => {
  for (const plan of [
    mount('data'),
    mount('.'),
    planOf('{}', 'run: ls, workspace: { git: repo }'),
    planOf('{}', 'run: ls, workspace: { git: "https://example.com/app" }'),
  ])
    await settleForStarter(plan, LIMITS(['example.com/app']));
});

test('an upload that is missing, and a folder within an uploaded repository, are named', async () => {
  await expect(settleForStarter(mount('none'), LIMITS())).rejects.toMatchObject({ code: 'cli/mount-missing' });
  const workIn = (git: string) => settleForStarter(planOf('{}', `run: ls, workspace: { git: ${git} }`), LIMITS());
  await expect(workIn('repo/sub')).rejects.toMatchObject({ code: 'cli/workspace-subfolder' });
  // The message does not name the repository of the host that is around the uploads.
  await workIn('data');
});

const DEPLOYED = { deployment: { name: 'review', version: 1, delivery: 'd-1', deployer: null } };

describe('a plan of a deployment', () => {
  test('mounts its own files and the folders that the owner allowed, only `ro`', async () => {
    const limits = { ...LIMITS(), ...DEPLOYED, allow: [join(dir, 'other')] };
    for (const plan of [mount('data'), mount(join(dir, 'other'))]) await settleForStarter(plan, limits);
    for (const plan of [mount('/etc'), mount(join(dir, 'other'), 'rw'), mount(`${dir}/other-one`)])
      await expect(settleForStarter(plan, limits)).rejects.toMatchObject({ code: 'admit/mount-refused' });
  });

  test('is refused with remedies of a deployment', () => {
    const limits = { ...LIMITS(), ...DEPLOYED };
    expect(() => refuseForStarter(mount('/etc'), limits)).toThrow(
      expect.objectContaining({ remedy: expect.stringContaining('voidbox deploy FILE --allow-mounts FOLDER') }),
    );
    const url = planOf('{}', 'run: ls, workspace: { git: "https://example.com/app" }');
    expect(() => refuseForStarter(url, limits)).toThrow(
      expect.objectContaining({
        message: expect.stringContaining('which the deployment does not allow'),
        remedy: expect.stringContaining('--allow-git example.com/app'),
      }),
    );
  });
});

test('the mark of a confined run names its starter again', () => {
  for (const starter of [
    { name: 'ci', allowGit: ['a.b/c'], folder },
    { ...DEPLOYED, allow: ['/data'], allowGit: [], folder },
  ])
    expect(readConfinedStarter(createConfinedMark(starter))).toEqual(starter);
  expect(readConfinedStarter({ baseDir: folder })).toBeNull();
});
