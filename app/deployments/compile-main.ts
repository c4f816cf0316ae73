/**
 * The process that compiles deployments. It answers one request after the other over the channel of its parent, ends
 * with it, and gets no variable of it.
 */
import { readEnvironment } from '../../setup/environment.ts';
import type { CompileRequest } from './compile-request.ts';
import { compileVersion } from './compile-version.ts';

const env = readEnvironment();

process.on('disconnect', () => process.exit(0));
process.on('message', (request: CompileRequest) => {
  void answer(request);
});
process.send!({ kind: 'ready' });

async function answer(request: CompileRequest): Promise<void> {
  const reply = await compileVersion(request, env).catch((error: Error) => ({
    kind: 'bug' as const,
    message: error.stack ?? error.message,
  }));
  process.send?.(reply);
}
