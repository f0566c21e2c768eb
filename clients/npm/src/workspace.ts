import { execFile } from "node:child_process";
import { resolve } from "node:path";

import { invalid, isObject, type Json, ofRecord, text, ToolcellError } from "./errors.js";
import {
  badPath,
  changesOf,
  checkedName,
  fileOf,
  infoOf,
  objects,
  type Snapshot,
  snapshotOf,
  type WorkspaceChanges,
  type WorkspaceFile,
  type WorkspaceInfo,
} from "./files.js";
import { findProgram } from "./program.js";

/** How the command of a workspace runs. */
export interface WorkspaceOptions {
  /** The path of the program; by default that of a client. */
  program?: string;
  /** Variables to set for the program, beside those of this process. */
  environment?: Record<string, string>;
}

/** The bytes, or the path of a file that holds them. */
export type Content = Uint8Array | { file: string };

/** Exit code of an invalid request. */
const BAD_REQUEST = 2;
const ERROR = '{"error":';

/**
 * A named tree of files that tools keep between calls: `Toolcell.start({ workspace: NAME })`. It belongs to the user, and `put`
 * creates it. Each method runs `toolcell workspace`, which waits up to a minute for a call that uses the workspace. Paths are
 * relative to its top folder.
 */
export class Workspace {
  readonly name: string;
  readonly #options: WorkspaceOptions;

  constructor(name: string, options: WorkspaceOptions = {}) {
    this.name = checkedName(name, "workspace");
    this.#options = options;
  }

  /** Writes a file, in one step, with the folders that hold it. */
  async put(path: string, content: Content): Promise<WorkspaceFile> {
    const [file, input] = source(content);
    return fileOf(json(await this.#run(["put"], [file, plain(path)], input)));
  }

  /** Adds all files of a tar archive, or none. */
  async putArchive(content: Content): Promise<WorkspaceChanges> {
    const [file, input] = source(content);
    return this.#changes(await this.#run(["put", "--tar"], [file], input));
  }

  /** Reads a file. */
  async get(path: string): Promise<Buffer> {
    return this.#run(["get"], [plain(path)]);
  }

  /** Reads all files, as a tar archive without links. */
  async getArchive(): Promise<Buffer> {
    return this.#run(["get", "--tar"], []);
  }

  /** All files, sorted by path. Links and folders are not listed. */
  async files(): Promise<WorkspaceFile[]> {
    return objects(json(await this.#run(["show"], []))["files"]).map(fileOf);
  }

  /** The snapshots. */
  async snapshots(): Promise<Snapshot[]> {
    return objects(json(await this.#run(["show"], []))["snapshots"]).map(snapshotOf);
  }

  /** Removes a file, or a folder with its content. */
  async removeFile(path: string): Promise<void> {
    await this.#run(["rm"], [plain(path)]);
  }

  /** Changes from the snapshot `from` to the snapshot `to`, by default to the files as they are. */
  async diff(from: string, to?: string): Promise<WorkspaceChanges> {
    const ids = to === undefined ? [from] : [from, to];
    return this.#changes(await this.#run(["diff"], ids.map(snapshotId)));
  }

  /** Keeps the files as they are now. Without `id`, the snapshot is named s1, s2 and so on. */
  async snapshot(id?: string): Promise<Snapshot> {
    return snapshotOf(json(await this.#run(["snapshot"], id === undefined ? [] : [snapshotId(id)])));
  }

  /** Makes the files those of a snapshot, in one step. */
  async restore(id: string): Promise<WorkspaceChanges> {
    return this.#changes(await this.#run(["restore"], [snapshotId(id)]));
  }

  /** Makes a new workspace with these files, without the snapshots. */
  async fork(name: string): Promise<Workspace> {
    await this.#run(["fork"], [checkedName(name, "workspace")]);
    return new Workspace(name, this.#options);
  }

  /** Removes the workspace with its snapshots. */
  async remove(): Promise<void> {
    await this.#run(["remove"], []);
  }

  #run(action: string[], args: string[], input?: Uint8Array): Promise<Buffer> {
    return run([...action, "--json", "--", this.name, ...args], this.#options, input);
  }

  #changes(output: Buffer): WorkspaceChanges {
    return changesOf(this.name, json(output));
  }
}

/** The workspaces of the user. */
export async function listWorkspaces(options: WorkspaceOptions = {}): Promise<WorkspaceInfo[]> {
  return objects(json(await run(["list", "--json"], options))["workspaces"]).map(infoOf);
}

function run(args: string[], options: WorkspaceOptions, input: Uint8Array = Buffer.alloc(0)): Promise<Buffer> {
  const program = findProgram(options.program);
  const env = { ...process.env, ...options.environment };
  const settings = { env, encoding: "buffer", maxBuffer: Number.POSITIVE_INFINITY, windowsHide: true } as const;
  return new Promise((done, failed) => {
    const child = execFile(program, ["workspace", ...args], settings, (error, stdout, stderr) => {
      if (error === null) done(stdout);
      else if (typeof error.code === "string") failed(notStarted(program, error));
      else failed(failure(error.code, stdout, String(stderr).trim()));
    });
    // A program that fails does not read.
    child.stdin?.on("error", () => {});
    child.stdin?.end(input);
  });
}

/** The error that a command printed. */
function failure(exit: number | null | undefined, stdout: Buffer, stderr: string): ToolcellError {
  // It can follow the first part of an archive.
  const at = stdout.lastIndexOf(ERROR);
  if (at >= 0) {
    const facts = parsed(stdout.subarray(at))?.["error"];
    if (isObject(facts)) return ofRecord(facts, text(facts["message"]) ?? "toolcell refused the command");
  }
  const message = stderr.replace(/^error: /, "") || `toolcell has ended with exit code ${exit}`;
  return exit === BAD_REQUEST
    ? new ToolcellError("invalid_arguments", "request_refused", message)
    : new ToolcellError("execution_failed", "command_failed", message);
}

function json(output: Buffer): Json {
  const value = parsed(output);
  if (value !== undefined) return value;
  throw new ToolcellError("execution_failed", "answer_unreadable", "toolcell printed what cannot be read");
}

function parsed(output: Buffer): Json | undefined {
  try {
    const value: unknown = JSON.parse(output.toString());
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** The argument FILE of the command, and its standard input. */
function source(content: Content): [file: string, input?: Uint8Array] {
  if (content instanceof Uint8Array) return ["-", content];
  if (isObject(content) && typeof content["file"] === "string") return [plain(resolve(content["file"]))];
  throw invalid("option_invalid", "cannot write the content: it is neither a Uint8Array nor { file: PATH }");
}

/** A path that a command line can hold. */
function plain(path: string): string {
  if (typeof path === "string" && path.isWellFormed() && !path.includes("\0")) return path;
  throw badPath(path, "it is not Unicode text without NUL");
}

function snapshotId(id: string): string {
  return checkedName(id, "snapshot");
}

function notStarted(program: string, error: Error): ToolcellError {
  return new ToolcellError("setup_required", "program_not_started", `cannot start ${program}: ${error.message}`, { cause: error });
}
