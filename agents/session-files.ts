/**
 * Reads the file in which a command line keeps its session. The file has the use of each model call as soon as the call
 * ends. Codex's stream reports use only at the end of a turn. Claude's stream counts only the first token that a call
 * writes.
 */
import { fieldsOf, parseLine, textOf } from './fields.ts';
import { type AgentUsage, NO_USAGE } from './stream.ts';
import { usageOfClaude } from './claude-stream.ts';
import { tokenCountOfCodex, usageOfCodex } from './codex-stream.ts';
import { findLargestUse, sumUse } from '../domain/agent/budget.ts';
import type { AgentCli } from '../domain/agent/agent-cli.ts';

/** Adds up the lines that it is given. */
export interface SessionReader {
  /** Returns the total use so far; null: the line reports no use. */
  line(text: string): AgentUsage | null;
}

/** Patterns of a shell; `$1` is the id of the session. */
const PATTERNS: Readonly<Record<AgentCli, string>> = {
  claude: '"${CLAUDE_CONFIG_DIR:-$HOME/.claude}"/projects/*/"$1".jsonl',
  codex: '"${CODEX_HOME:-$HOME/.codex}"/sessions/*/*/*/rollout-*-"$1".jsonl',
};

/** As both command lines make them; nothing else comes into a pattern. */
const SESSION_ID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** If the file does not exist after this time, the command line keeps it elsewhere. */
const FILE_LIMIT_SECONDS = 60;

/**
 * Prints the file of a session and what is appended to it, until the program is stopped.
 * @param from  `end`: print a first line `ready`, then only what is appended
 * @returns arguments of a shell; null for a text that is no id of a session
 */
export function sessionFollower(cli: AgentCli, sessionId: string, from: 'start' | 'end'): readonly string[] | null {
  if (!SESSION_ID.test(sessionId)) return null;
  const script = `tries=0
while :; do
  for file in ${PATTERNS[cli]}; do
    if [ -f "$file" ]; then
      if [ "$2" = start ]; then exec tail -n +1 -f "$file"; fi
      bytes=$(wc -c < "$file")
      echo ready
      exec tail -c "+$((bytes + 1))" -f "$file"
    fi
  done
  tries=$((tries + 1))
  if [ "$tries" -gt ${FILE_LIMIT_SECONDS * 5} ]; then echo "no session file" >&2; exit 3; fi
  sleep 0.2
done`;
  return ['-c', script, 'sh', sessionId, from];
}

/**
 * Puts out the file of a session as it is.
 * @returns arguments of a shell; null for a text that is not the id of a session
 */
export function sessionPrinter(cli: AgentCli, sessionId: string): readonly string[] | null {
  if (!SESSION_ID.test(sessionId)) return null;
  const script = `for file in ${PATTERNS[cli]}; do if [ -f "$file" ]; then exec cat "$file"; fi; done; exit 3`;
  return ['-c', script, 'sh', sessionId];
}

export function createSessionReader(cli: AgentCli): SessionReader {
  return cli === 'codex' ? codexReader() : claudeReader();
}

/**
 * Each line of a message reports the use of the whole message. The reader keeps the largest value, because the guest's
 * user can add forged lines to the file.
 */
function claudeReader(): SessionReader {
  let before = NO_USAGE;
  let current = NO_USAGE;
  let messageId: string | null = null;
  return {
    line(text) {
      const event = parseLine(text);
      const message = fieldsOf(event?.['message']);
      if (event?.['type'] !== 'assistant' || message['usage'] === undefined) return null;
      // The command line itself writes such messages, for example when a call has failed.
      if (message['model'] === '<synthetic>') return null;
      const id = textOf(message['id']);
      const said = usageOfClaude(fieldsOf(message['usage']));
      if (id === null || id !== messageId) before = sumUse(before, current);
      current = id !== null && id === messageId ? findLargestUse(current, said) : said;
      messageId = id;
      return sumUse(before, current);
    },
  };
}

/** A line that repeats the total belongs to no further call. */
function codexReader(): SessionReader {
  let sum = NO_USAGE;
  let total = '';
  return {
    line(text) {
      const info = tokenCountOfCodex(text);
      if (info === null) return null;
      const now = JSON.stringify(info['total_token_usage']);
      if (now === total) return null;
      total = now;
      sum = sumUse(sum, { ...usageOfCodex(fieldsOf(info['last_token_usage'])), turns: 1 });
      return sum;
    },
  };
}
