/** Files that the author of a cloned project can put into its git folder so that git runs a program. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { GIT_PATH } from './git-path.ts';

/** Keys of git's configuration whose value is a program, or text with one. */
const PROGRAM_KEYS = [
  'core.alternateRefsCommand',
  'core.askPass',
  'core.editor',
  'core.fsmonitor',
  'core.gitProxy',
  'core.hookPath',
  'core.pager',
  'core.sshCommand',
  'credential.helper',
  'diff.external',
  'diff.x.command',
  'diff.x.textconv',
  'difftool.x.cmd',
  'filter.x.clean',
  'filter.x.process',
  'filter.x.smudge',
  'gpg.openpgp.program',
  'gpg.program',
  'gpg.ssh.defaultKeyCommand',
  'gpg.ssh.program',
  'gpg.x509.program',
  'interactive.diffFilter',
  'man.x.cmd',
  'merge.x.driver',
  'mergetool.x.cmd',
  'pager.apply',
  'pager.config',
  'pager.update-ref',
  'receive.procReceiveRefs',
  'remote.origin.receivepack',
  'remote.origin.uploadpack',
  'remote.origin.vcs',
  'sendemail.smtpServer',
  'sequence.editor',
  'tar.x.command',
  'trailer.x.cmd',
  'trailer.x.command',
  'uploadpack.packObjectsHook',
  'web.browser',
  'browser.x.cmd',
] as const;

/** The commands for which git would look up aliases. */
const COMMANDS = ['apply', 'config', 'diff-files', 'index-pack', 'ls-files', 'pack-objects', 'rev-parse', 'update-ref'];

const HOOKS = [
  'applypatch-msg',
  'post-applypatch',
  'post-checkout',
  'post-commit',
  'post-index-change',
  'pre-applypatch',
  'pre-auto-gc',
  'pre-commit',
  'reference-transaction',
  'update',
];

/**
 * @param gitDir  its configuration and hooks name the program, in each way that git has
 * @param canary  the program makes this file
 */
export function plantPrograms(gitDir: string, canary: string): void {
  const program = join(gitDir, 'hostile-program');
  writeFileSync(program, `#!/bin/sh\necho "$0 $*" >> ${canary}\ncat >/dev/null\n`, { mode: 0o755 });
  const set = (file: string, key: string, value: string): void => {
    const env = { PATH: GIT_PATH, HOME: '/nonexistent', GIT_CONFIG_NOSYSTEM: '1', GIT_DIR: gitDir };
    execFileSync('git', ['config', '--file', join(gitDir, file), '--add', key, value], { env, cwd: '/' });
  };
  for (const file of ['config', 'config.worktree', 'included']) {
    for (const key of PROGRAM_KEYS) set(file, key, program);
    for (const command of COMMANDS) set(file, `alias.${command}`, `!${program}`);
    for (const event of HOOKS) {
      set(file, `hook.on-${event}.event`, event);
      set(file, `hook.on-${event}.command`, program);
    }
    set(file, 'core.hooksPath', join(gitDir, 'hooks'));
    set(file, 'core.attributesFile', join(gitDir, 'attributes'));
    set(file, 'filter.x.required', 'true');
    set(file, 'protocol.allow', 'always');
    set(file, 'protocol.ext.allow', 'always');
    set(file, 'remote.origin.url', `ext::${program}`);
  }
  set('config', 'core.repositoryFormatVersion', '1');
  set('config', 'extensions.worktreeConfig', 'true');
  set('config', 'include.path', 'included');
  set('config', 'includeIf.gitdir:**.path', join(gitDir, 'included'));
  writeFileSync(join(gitDir, 'attributes'), '* filter=x diff=x merge=x\n');
  mkdirSync(join(gitDir, 'hooks'), { recursive: true });
  for (const hook of HOOKS)
    writeFileSync(join(gitDir, 'hooks', hook), `#!/bin/sh\nexec ${program} ${hook}\n`, { mode: 0o755 });
}
