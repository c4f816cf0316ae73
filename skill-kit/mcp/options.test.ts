import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { makeBlockingPipe, PIPE_ENDS_MS } from '../../test/rig/vms/blocking-pipe.ts';
import { parseMcpOptions } from './options.ts';

const parse = (...argv: string[]) => parseMcpOptions(argv);

function tokenFile(text: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'voidbox-token-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  writeFileSync(join(folder, 'token'), text);
  return join(folder, 'token');
}

describe('the flags of an MCP server', () => {
  it('default to stdio, 100 sessions and an hour', () => {
    expect(parse()).toEqual({ handshake: {}, durable: false, maxSessions: 100, idleMs: 3_600_000, http: null });
  });

  it('say who the agent is', () => {
    expect(parse('--host', 'codex', '--tools', 'a, b,', '--subagent')?.handshake).toEqual({
      host: 'codex',
      toolsAvailable: ['a', 'b'],
      isSubagent: true,
    });
  });

  it('say where to listen and who may come', () => {
    const path = tokenFile('s3cret\n');
    const options = parse(
      '--http',
      '0',
      '--listen',
      '0.0.0.0',
      '--token-file',
      path,
      '--allow-host',
      'a.example',
      '--allow-host',
      'b.example',
    );
    expect(options?.http).toEqual({
      port: 0,
      listen: '0.0.0.0',
      token: 's3cret',
      allowedHosts: ['a.example', 'b.example'],
    });
  });

  it('set limits', () => {
    expect(parse('--max-sessions', '3', '--idle-minutes', '5', '--max-message-mib', '1')).toMatchObject({
      maxSessions: 3,
      idleMs: 300_000,
      maxMessageBytes: 1_048_576,
    });
  });

  it('are refused when they make no sense, by name', () => {
    expect(() => parse('--http', 'x')).toThrow('--http must be a whole number from 0 to 65535, got "x".');
    expect(() => parse('--http', '70000')).toThrow('--http must be');
    expect(() => parse('--max-sessions', '0')).toThrow('--max-sessions must be');
    expect(() => parse('--listen', '0.0.0.0')).toThrow('--listen has no effect on stdio');
    expect(() => parse('--prot', '1')).toThrow('--prot');
    expect(() => parse('--http', '1', '--token-file', tokenFile('a b'))).toThrow('one token without white space');
    expect(() => parse('--http', '1', '--token-file', tokenFile('\n'))).toThrow('one token without white space');
  });

  it('refuse a token file that is a pipe without a writer', () => {
    const path = `${tokenFile('')}-pipe`;
    const end = makeBlockingPipe(path);
    const startedMs = Date.now();
    expect(() => parse('--http', '1', '--token-file', path)).toThrow(
      `--token-file ${path} cannot be read: it is a pipe and no file`,
    );
    expect(Date.now() - startedMs).toBeLessThan(PIPE_ENDS_MS / 2);
    end();
  });

  it('give help', () => {
    expect(parse('--help', '--max-sessions', '0')).toBeNull();
  });
});
