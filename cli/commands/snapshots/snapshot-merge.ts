import { defineCommand } from '../../command.ts';
import { EXIT } from '../../exit-code.ts';
import { renderMerged, toPreparedJson } from '../../render/host/prepared-sandboxes.ts';

export const command = defineCommand<{ readonly json?: boolean }>({
  beforeFirst: 'List prepared sandboxes: voidbox snapshot list',
  configure: (command) => {
    command
      .argument('<name>', 'the name of a prepared sandbox with memory, or a unique beginning of its id')
      .addHelpText(
        'after',
        `
Prepared sandboxes that were made with --diff are chains of at most eight links. A merge makes a chain one link, so
further differences are possible, and a start opens fewer files. Name and id stay. VMs that continue from it run on, and
their next difference fits to the merge. Until the merge is complete, the old chain is used.`,
      );
  },
  async execute([name = ''], { json = false }, context) {
    const { env, stdout, stderr } = context;
    // Loaded here and not above: help needs no code that starts processes.
    const { mergePrepared } = await import('../../../app/snapshots/merge-prepared.ts');
    const stop = new AbortController();
    const listening = context.onInterrupt(() => stop.abort(new Error('interrupted')));
    try {
      const { before, merged } = await mergePrepared(name, env, {
        signal: stop.signal,
        onProgress: (line) => void stderr.write(`==> ${line}\n`),
      });
      const links = before.memory?.links.length ?? 1;
      await stdout.write(
        json
          ? `${JSON.stringify({ merged: toPreparedJson(merged), links, usedBytesBefore: before.usedBytes })}\n`
          : `${renderMerged(before, merged, stdout.style)}\n`,
      );
      return EXIT.success;
    } catch (error) {
      if (stop.signal.aborted) return EXIT.interrupted;
      throw error;
    } finally {
      listening.dispose();
    }
  },
});
