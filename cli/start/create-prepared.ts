/** `snapshot create --stage`: shows the commands of a stage, and the prepared sandbox that they leave. */
import type { PrepareRequest } from '../../app/snapshots/prepare-sandbox.ts';
import type { CliContext } from '../context.ts';
import { EXIT, type ExitCode } from '../exit-code.ts';
import { renderMade, toPreparedJson } from '../render/host/prepared-sandboxes.ts';
import { bytesSink } from '../runs/bytes-sink.ts';

export async function createPrepared(request: PrepareRequest, isJson: boolean, context: CliContext): Promise<ExitCode> {
  const { stdout, stderr } = context;
  // Loaded here and not above: a mistake in the spec is reported without the code that starts VMs.
  const { prepareSandbox } = await import('../../app/snapshots/prepare-sandbox.ts');
  const stop = new AbortController();
  const listening = context.onInterrupt(() => stop.abort(new Error('interrupted')));
  const sink = bytesSink(stderr);
  try {
    const prepared = await prepareSandbox(
      request,
      {
        signal: stop.signal,
        onProgress: (line) => void stderr.write(`==> ${line}\n`),
        onStage: async (stage) => {
          await stderr.write(`==> stage ${stage}\n`);
        },
        onOutput: async (_stream, bytes) => await sink.write(bytes),
      },
      context,
    );
    await sink.end();
    await stdout.write(
      isJson
        ? `${JSON.stringify({ prepared: toPreparedJson(prepared) })}\n`
        : `${renderMade(prepared, stdout.style)}\n`,
    );
    return EXIT.success;
  } catch (error) {
    await sink.end();
    if (stop.signal.aborted) return EXIT.interrupted;
    throw error;
  } finally {
    listening.dispose();
  }
}
