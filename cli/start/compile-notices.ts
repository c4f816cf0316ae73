/** News of a compilation, on standard error. */
import type { CompileNotice } from '../../app/start/compile-run.ts';
import type { AppliedSettings } from '../../domain/language/compile/apply-settings.ts';
import type { HostSettings } from '../../domain/language/compile/stage/host-settings.ts';
import { describeSettings } from '../../app/start/host-settings.ts';
import { sanitizeLine } from '../../domain/security/sanitize.ts';
import type { CliContext, Sink } from '../context.ts';
import { renderDiagnostics } from '../render/spec/diagnostics.ts';

/** Returns the listener of a compilation. With `json` only diagnostics of a refused spec are JSON; settings stay lines of text. */
export function showNotices(
  { stderr }: Pick<CliContext, 'stderr'>,
  json: boolean,
): (notice: CompileNotice) => Promise<void> {
  return async (notice) => {
    switch (notice.kind) {
      case 'diagnostics': {
        const { diagnostics, sources, isRefused } = notice;
        if (json && isRefused) await stderr.write(`${JSON.stringify({ diagnostics })}\n`);
        else if (!json && diagnostics.length > 0)
          await stderr.write(renderDiagnostics(diagnostics, sources, { style: stderr.style, width: stderr.width() }));
        return;
      }
      case 'settings':
        return await writeSettings(notice.settings, notice.applied, stderr);
      case 'no-agents':
        await stderr.write('notice: --mock-agents has no effect: no stage has an agent\n');
    }
  };
}

/** Writes a line for each setting of the environment that replaces a value of the spec, or that has no effect. */
export async function writeSettings(
  settings: HostSettings | null,
  applied: AppliedSettings,
  stderr: Pick<Sink, 'write'>,
): Promise<void> {
  for (const line of settings === null ? [] : describeSettings(settings, applied))
    await stderr.write(`${sanitizeLine(line)}\n`);
}
