#!/bin/sh
# The broker on its volume. Its name stays whatever the pod's address is, and so does its data.
set -eu
umask 077
mkdir -p "$HOME/mnesia"
# The cookie must be the program's own file, readable by nobody else; a mounted Secret is not.
cp /etc/rabbitmq-secret/cookie "$HOME/.erlang.cookie.new"
chmod 400 "$HOME/.erlang.cookie.new"
mv -f "$HOME/.erlang.cookie.new" "$HOME/.erlang.cookie"
exec rabbitmq-server
