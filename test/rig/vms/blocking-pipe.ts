import { execFileSync, spawn } from 'node:child_process';

/** Longer than a refusal takes, and shorter than the limit of a test. */
export const PIPE_ENDS_MS = 5_000;

/**
 * Makes a named pipe whose reader blocks for 5 s and then reads its end, so that a test fails instead of hanging.
 * @returns ends the helper
 */
export function makeBlockingPipe(path: string): () => void {
  execFileSync('mkfifo', [path]);
  const helper = spawn('sh', ['-c', 'sleep "$1"; : > "$2"', 'sh', String(PIPE_ENDS_MS / 1_000), path], {
    stdio: 'ignore',
    detached: true,
  });
  return () => {
    try {
      process.kill(-helper.pid!, 'SIGKILL');
    } catch {
      // It has ended.
    }
  };
}
