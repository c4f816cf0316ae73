/**
 * An unmodified command line of an agent on this machine, where it finds what it finds in a VM: its package below `/opt/agents`, an
 * empty `/workspace`, the home of the user `sandbox`, and of the host its programs and its loopback.
 */
import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { type AgentProvider, AGENT_HOME, AGENT_WORKSPACE, type AgentTask } from '../../../agents/provider.ts';
import { readEnvironment } from '../../../setup/environment.ts';
import { resolveOptionalPieces } from '../../../setup/resolve.ts';

const LIMIT_MS = 120_000;
const KEYS = { ANTHROPIC_API_KEY: 'sk-ant-of-the-test', OPENAI_API_KEY: 'sk-of-the-test' };
const JAIL = [
  '--unshare-user --unshare-pid --die-with-parent --uid 1000 --gid 1000 --clearenv',
  '--ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/lib /lib --symlink usr/lib64 /lib64',
  '--ro-bind /etc /etc --proc /proc --dev /dev --tmpfs /tmp',
];

export interface HostAgentEnd {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export async function runAgentOnHost(provider: AgentProvider, task: AgentTask): Promise<HostAgentEnd> {
  const found = await resolveOptionalPieces(readEnvironment(), [provider.cli], { install: true });
  const layer = found.get(provider.cli)!;
  const root = mkdtempSync(join(tmpdir(), 'voidbox-agent-'));
  try {
    const { args, env, files } = provider.command(task);
    for (const folder of [AGENT_WORKSPACE, AGENT_HOME]) mkdirSync(join(root, folder), { recursive: true });
    for (const { guestPath, text } of files) {
      mkdirSync(dirname(join(root, guestPath)), { recursive: true });
      writeFileSync(join(root, guestPath), text);
    }
    const program = `/opt/agents/${provider.cli}`;
    const variables = Object.entries({ PATH: '/usr/bin:/bin', LANG: 'C.UTF-8', ...KEYS, ...env });
    const jail = [
      JAIL.flatMap((words) => words.split(' ')),
      ['--ro-bind', layer, program],
      [AGENT_WORKSPACE, AGENT_HOME].flatMap((folder) => ['--bind', join(root, folder), folder]),
      variables.flatMap(([name, value]) => ['--setenv', name, value]),
      ['--chdir', AGENT_WORKSPACE, join(program, 'bin', provider.cli)],
    ].flat();
    return await end('bwrap', [...jail, ...args], task.prompt);
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
}

async function end(program: string, args: readonly string[], stdin: string): Promise<HostAgentEnd> {
  const child = spawn(program, args, { stdio: ['pipe', 'pipe', 'pipe'], timeout: LIMIT_MS });
  let [stdout, stderr] = ['', ''];
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  child.stdin.end(stdin);
  const code = await new Promise<number | null>((resolve, reject) => {
    child.on('error', reject);
    child.on('close', resolve);
  });
  return { code, stdout, stderr };
}
